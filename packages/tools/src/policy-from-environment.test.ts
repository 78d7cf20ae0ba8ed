/** The administrator's policy in environment variables. */
import { expect, it } from "vitest";
import { DEFAULT_POLICY } from "./policy.ts";
import { POLICY_VARIABLES, policyFromEnvironment } from "./policy-from-environment.ts";

it("has defaults for everything, and treats an empty variable as not set", () => {
  expect(policyFromEnvironment({})).toEqual(DEFAULT_POLICY);
  expect(policyFromEnvironment({ STATION_SANDBOX_ENABLED: " " })).toEqual(DEFAULT_POLICY);
  expect(DEFAULT_POLICY).toMatchObject({
    allowNetwork: false,
    defaultTimeoutSeconds: 120,
    maxStdoutBytes: 200_000,
    maxStderrBytes: 200_000,
    maxArtifactBytes: 10_000_000,
    idleTimeoutSeconds: 1800,
    maxLifetimeSeconds: 14_400,
  });
});

it("reads every variable of the seeds", () => {
  expect(
    policyFromEnvironment({
      STATION_SANDBOX_ENABLED: "false",
      STATION_SANDBOX_CODE_MODE_ENABLED: "no",
      STATION_SANDBOX_ALLOW_NETWORK_DEFAULT: "true",
      STATION_SANDBOX_ALLOWED_IMAGES: "python:3.11-slim, node:20-slim,,ubuntu:22.04",
      STATION_SANDBOX_DEFAULT_TIMEOUT_SECONDS: "60",
      STATION_SANDBOX_MAX_TIMEOUT_SECONDS: "600",
      STATION_SANDBOX_MAX_STDOUT_BYTES: "1000",
      STATION_SANDBOX_MAX_STDERR_BYTES: "2000",
      STATION_SANDBOX_MAX_ARTIFACT_BYTES: "3000",
      STATION_SANDBOX_MAX_ARTIFACTS_COUNT: "4",
      SANDBOX_SESSION_IDLE_TIMEOUT: "30m",
      SANDBOX_SESSION_MAX_LIFETIME: "1h30m",
      SANDKASTEN_AGENTS_SANDBOX_TRACE_OUTPUT_BYTES: "512",
    }),
  ).toEqual({
    enabled: false,
    codeModeEnabled: false,
    allowNetwork: true,
    allowedImages: ["python:3.11-slim", "node:20-slim", "ubuntu:22.04"],
    defaultTimeoutSeconds: 60,
    maxTimeoutSeconds: 600,
    maxStdoutBytes: 1000,
    maxStderrBytes: 2000,
    maxArtifactBytes: 3000,
    maxArtifactsCount: 4,
    idleTimeoutSeconds: 1800,
    maxLifetimeSeconds: 5400,
    traceOutputBytes: 512,
  });
});

it("prefers its own names to older ones", () => {
  const policy = policyFromEnvironment({
    STN_SANDBOX_MAX_STDOUT_BYTES: "1",
    STATION_SANDBOX_MAX_STDOUT_BYTES: "2",
    SANDKASTEN_AGENTS_SANDBOX_MAX_STDOUT_BYTES: "3",
    STN_SANDBOX_MAX_STDERR_BYTES: "4",
    STN_SANDBOX_MAX_ARTIFACT_BYTES: "5",
    STATION_SANDBOX_MAX_ARTIFACT_BYTES: "6",
    STATION_SANDBOX_ALLOW_NETWORK_DEFAULT: "true",
    SANDKASTEN_AGENTS_SANDBOX_ALLOW_NETWORK: "false",
  });
  expect(policy).toMatchObject({
    maxStdoutBytes: 3,
    maxStderrBytes: 4,
    maxArtifactBytes: 6,
    allowNetwork: false,
  });
});

it("names every invalid variable, and what it must be", () => {
  const broken = {
    STATION_SANDBOX_ENABLED: "maybe",
    SANDBOX_SESSION_IDLE_TIMEOUT: "half an hour",
    STATION_SANDBOX_MAX_STDOUT_BYTES: "200k",
    STATION_SANDBOX_DEFAULT_TIMEOUT_SECONDS: "0",
  };
  expect(() => policyFromEnvironment(broken)).toThrow(
    'STATION_SANDBOX_ENABLED must be true or false, not "maybe"; STATION_SANDBOX_DEFAULT_TIMEOUT_SECONDS must be 1 to 3600, not "0"; STATION_SANDBOX_MAX_STDOUT_BYTES must be 1 to 8388608, not "200k"; SANDBOX_SESSION_IDLE_TIMEOUT must be a duration such as 30m, or a number of seconds, not "half an hour".',
  );
});

it("lists the variables of every key", () => {
  expect(Object.keys(POLICY_VARIABLES)).toEqual(Object.keys(DEFAULT_POLICY));
});
