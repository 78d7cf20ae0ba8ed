import { describe, expect, it } from "vitest";
import { configKeys } from "./keys.ts";
import { environmentLayer, flagLayer } from "./text-settings.ts";
import type { Layer } from "./settings.ts";
import { problemsOf } from "./settings.ts";

const keys = configKeys();

function outcome({ settings, problems, warnings }: Layer): Record<string, unknown> {
  expect(warnings).toEqual([]);
  expect([...problems, ...settings.flatMap((setting) => problemsOf(setting))]).toEqual([]);
  return Object.fromEntries(settings.map(({ key, value }) => [key.name, value]));
}

function problemsIn({ settings, problems }: Layer): string[] {
  return [...problems, ...settings.flatMap((setting) => problemsOf(setting))];
}

describe("environmentLayer()", () => {
  it("gives every key a unique variable and flag", () => {
    expect(new Set(keys.map(({ variable }) => variable)).size).toBe(keys.length);
    expect(new Set(keys.map(({ flag }) => flag.replace(/[.-]/g, "_"))).size).toBe(keys.length);
    expect(keys.filter(({ description }) => description === "")).toEqual([]);
  });

  it.each([
    ["SANDKASTEN_SESSION_TTL_SECONDS", "30m", "session_ttl_seconds", 1800],
    ["SANDKASTEN_SESSION_TTL_SECONDS", " 90 ", "session_ttl_seconds", 90],
    ["SANDKASTEN_DEFAULTS_MAX_EXEC_TIMEOUT_MS", "1m30s", "defaults.max_exec_timeout_ms", 90_000],
    ["SANDKASTEN_DEFAULTS_MEM_LIMIT_MB", "2GiB", "defaults.mem_limit_mb", 2048],
    ["SANDKASTEN_DEFAULTS_CPU_LIMIT", "0.5", "defaults.cpu_limit", 0.5],
    ["SANDKASTEN_HTTP_MAX_BODY_BYTES", "8MiB", "http.max_body_bytes", 8_388_608],
    ["SANDKASTEN_JOURNAL_MAX_BYTES_PER_EXEC", "1MiB", "journal.max_bytes_per_exec", 1_048_576],
    ["SANDKASTEN_ALLOW_ROOT_PROFILE", "No", "allow_root_profile", false],
    ["SANDKASTEN_ALLOWED_IMAGES", "python, node,", "allowed_images", ["python", "node"]],
    ["SANDKASTEN_POOL", "r.test:5/a:1=2", "pool", [{ image: "r.test:5/a:1", size: 2 }]],
  ])("reads %s=%s", (variable, text, key, value) => {
    expect(outcome(environmentLayer({ [variable]: text }, keys))).toEqual({ [key]: value });
  });

  it.each([
    ["SANDKASTEN_SESSION_TTL_SECONDS", "soon", "must be an integer from 1 to 86400"],
    ["SANDKASTEN_SESSION_TTL_SECONDS", "1500ms", "must be an integer from 1 to 86400"],
    ["SANDKASTEN_SESSION_TTL_SECONDS", "0x10", "must be an integer from 1 to 86400"],
    ["SANDKASTEN_DEFAULTS_PIDS_LIMIT", "20s", "must be an integer from 16 to 4000000"],
    ["SANDKASTEN_HTTP_MAX_BODY_BYTES", "8MB", "must be an integer"],
    ["SANDKASTEN_ALLOW_ROOT_PROFILE", "maybe", "must be true or false"],
  ])("refuses %s=%s", (variable, text, allowed) => {
    expect(problemsIn(environmentLayer({ [variable]: text }, keys))).toEqual([
      expect.stringContaining(`${variable} is "${text}"; it ${allowed}`),
    ]);
  });

  it("refuses unknown variables with its prefix, and suggests the nearest name", () => {
    expect(
      problemsIn(
        environmentLayer(
          { SANDKASTEN_LISTN: "a", SANDKASTEN_DISK_LIMIT_MB: "1", OTHER: "x" },
          keys,
        ),
      ),
    ).toEqual([
      "SANDKASTEN_LISTN is not a variable of the daemon; the nearest known name is SANDKASTEN_LISTEN",
      "SANDKASTEN_DISK_LIMIT_MB is not a variable of the daemon; the nearest known name is SANDKASTEN_DEFAULTS_DISK_LIMIT_MB",
    ]);
    expect(problemsIn(environmentLayer({ SANDKASTEN_PORT: "80" }, keys))).toHaveLength(1);
  });

  it("ignores empty variables, and those of clients, the agent service, tests and Kubernetes", () => {
    const env = {
      SANDKASTEN_API_KEY: "",
      SANDKASTEN_NONSENSE: "",
      SANDKASTEN_URL: "http://127.0.0.1:8080",
      SANDKASTEN_CONFIG: "/x.yaml",
      SANDKASTEN_AGENTS_URL: "http://127.0.0.1:8587",
      SANDKASTEN_AGENTS_SANDBOX_ALLOW_NETWORK: "true",
      SANDKASTEN_TEST_RUNTIME: "runc",
      SANDKASTEN_SERVICE_HOST: "10.0.0.1",
      SANDKASTEN_SERVICE_PORT_HTTP: "80",
      SANDKASTEN_PORT: "tcp://10.0.0.1:80",
      SANDKASTEN_PORT_80_TCP_ADDR: "10.0.0.1",
      STATION_SANDBOX_ENABLED: "true",
      STN_DATA_DIR: "/other",
    };
    expect(outcome(environmentLayer(env, keys))).toEqual({});
  });
});

describe("older variables", () => {
  it.each([
    ["SANDBOX_SESSION_IDLE_TIMEOUT", "30m", "session_ttl_seconds", 1800],
    ["SANDBOX_SESSION_MAX_LIFETIME", "4h", "max_session_lifetime_seconds", 14_400],
    ["STATION_SANDBOX_ALLOWED_IMAGES", "a:1,b:2", "allowed_images", ["a:1", "b:2"]],
    ["STN_SANDBOX_ALLOWED_IMAGES", "a:1", "allowed_images", ["a:1"]],
    ["STATION_SANDBOX_DEFAULT_TIMEOUT_SECONDS", "120", "defaults.max_exec_timeout_ms", 120_000],
    ["STATION_SANDBOX_MAX_STDOUT_BYTES", "200000", "output_budget_bytes", 200_000],
    ["STATION_SANDBOX_ALLOW_NETWORK_DEFAULT", "false", "defaults.network_mode", "none"],
    ["STATION_SANDBOX_DIR", "/d", "docker.workspace_dir", "/d"],
    ["STATION_SANDBOX_ENGINE_MODE", "docker_socket", "backend", "docker"],
    ["DOCKER_HOST", "tcp://engine.test:2376", "docker.host", "tcp://engine.test:2376"],
    ["DAGGER_HOST", "tcp://engine.test:2375", "docker.host", "tcp://engine.test:2375"],
    ["DOCKER_CERT_PATH", "/certs", "docker.cert_path", "/certs"],
    ["DOCKER_CONFIG", "/config", "docker.config_dir", "/config"],
  ])("reads %s=%s", (variable, text, key, value) => {
    expect(outcome(environmentLayer({ [variable]: text }, keys))).toEqual({ [key]: value });
  });

  it("have lower precedence than ours, the longer prefix wins, and the larger of two limits applies", () => {
    const env = {
      SANDBOX_SESSION_IDLE_TIMEOUT: "nonsense",
      SANDKASTEN_SESSION_TTL_SECONDS: "60",
      STATION_SANDBOX_DIR: "/a",
      STN_SANDBOX_DIR: "/b",
      STATION_SANDBOX_MAX_STDOUT_BYTES: "3000",
      STATION_SANDBOX_MAX_STDERR_BYTES: "2000",
    };
    expect(outcome(environmentLayer(env, keys))).toEqual({
      session_ttl_seconds: 60,
      "docker.workspace_dir": "/a",
      output_budget_bytes: 3000,
    });
  });

  it("report themselves and the key if their value is refused", () => {
    const env = {
      SANDBOX_SESSION_IDLE_TIMEOUT: "0s",
      STATION_SANDBOX_ALLOW_NETWORK_DEFAULT: "true",
    };
    expect(problemsIn(environmentLayer(env, keys))).toEqual([
      'SANDBOX_SESSION_IDLE_TIMEOUT (session_ttl_seconds) is "0s"; it must be an integer from 1 to 86400',
      'STATION_SANDBOX_ALLOW_NETWORK_DEFAULT (defaults.network_mode) is "true"; it must be none: a sandbox has a network only if its request asks for it, and network.allow (or docker.network) allows it',
    ]);
  });
});

describe("flagLayer()", () => {
  it("accepts names with dots, dashes and underscores", () => {
    for (const name of ["defaults.mem-limit-mb", "defaults-mem-limit-mb", "defaults.mem_limit_mb"])
      expect(outcome(flagLayer({ [name]: "64" }, {}, keys))).toEqual({
        "defaults.mem_limit_mb": 64,
      });
  });

  it("refuses unknown, empty, repeated and invalid values", () => {
    const flags = {
      "mem-limit": "1",
      "log-level": "",
      "db-path": "a",
      db_path: "b",
      pool: "host=many",
    };
    expect(problemsIn(flagLayer(flags, {}, keys))).toEqual([
      "--mem-limit is not known; the nearest known flag is --defaults.mem-limit-mb",
      "--log-level is empty; give it a value or leave it out",
      "--db_path sets db_path, which another flag also sets; keep one of them",
      '--pool: pool[0].size is "many"; it must be an integer from 0 to 1000',
    ]);
  });

  it("reports a name as it was written", () => {
    const set = { "defaults.mem-limit-mb": "64", log_level: "loud", mem_limit: "1", listen: "x" };
    const layer = flagLayer({ listen: "127.0.0.1:1" }, set, keys);
    expect(layer.settings.map(({ source }) => source.name)).toEqual([
      "--listen",
      "--set defaults.mem-limit-mb",
      "--set log_level",
    ]);
    expect(problemsIn(layer)).toEqual([
      "--set mem_limit is not known; the nearest known flag is --set defaults.mem_limit_mb",
      "--set listen sets listen, which another flag also sets; keep one of them",
      '--set log_level is "loud"; it must be one of trace, debug, info, warn, error, fatal, silent',
    ]);
  });
});
