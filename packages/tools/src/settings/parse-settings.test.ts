/** The `sandbox:` block in each of its forms. */
import { describe, expect, it } from "vitest";
import { parseSandboxSettings } from "./parse-settings.ts";
import { settingsObjectSchema } from "./schema.ts";
import { SettingsError } from "./settings-error.ts";

const DEFAULTS = {
  mode: "compute",
  language: "python",
  image: "python",
  isImageGiven: true,
  session: "default",
  network: false,
  pipPackages: [],
  npmPackages: [],
  limits: { maxFileSizeBytes: Infinity, maxFiles: Infinity },
};

describe("the string form", () => {
  it.each([
    ["python", "python", "python"],
    ["node", "node", "node"],
    ["js", "node", "node"],
    ["typescript", "typescript", "node"],
    ["bash", "bash", "linux"],
    ["linux", "bash", "linux"],
    ["python:3.12-slim", "python", "python:3.12-slim"],
    ["registry.example.com:5000/team/node:22", "node", "registry.example.com:5000/team/node:22"],
    ["golang:1.22", "bash", "golang:1.22"],
  ])("%s is compute mode with this runtime", (runtime, language, image) => {
    expect(parseSandboxSettings(runtime)).toMatchObject({ ...DEFAULTS, language, image });
  });

  it("is the same as the object form with a runtime, and with mode: compute", () => {
    const settings = parseSandboxSettings("python");
    expect(parseSandboxSettings({ runtime: "python" })).toEqual(settings);
    expect(parseSandboxSettings({ runtime: "python", mode: "compute" })).toEqual(settings);
  });

  it.each([
    ["pyhton", "python"],
    ["nodee", "node"],
    ["bahs", "bash"],
    ["type-script", "typescript"],
  ])("%s is treated as a typo", (runtime, nearest) => {
    expect(() => parseSandboxSettings(runtime)).toThrow(`did you mean \`${nearest}\`?`);
    expect(parseSandboxSettings(`${runtime}:latest`).image).toBe(`${runtime}:latest`);
  });
});

describe("the object form", () => {
  it("accepts every key of the seeds", () => {
    const settings = parseSandboxSettings({
      mode: "code",
      runtime: "python",
      image: "python:3.11-slim",
      session: "build",
      limits: {
        cpu_millicores: 1000,
        memory_mb: 2048,
        pids: 128,
        timeout_seconds: 900,
        workspace_mb: 500,
        max_file_size_bytes: 1000,
        max_files: 7,
      },
      network: { enabled: true },
      allow_network: true,
      network_mode: "bridge",
      profile: "root",
      timeout_seconds: 300,
      exec_timeout_seconds: 300,
      idle_timeout_seconds: 900,
      max_stdout_bytes: 200_000,
      max_stderr_bytes: 100_000,
      max_artifact_bytes: 5000,
      max_artifacts_count: 3,
      pip_packages: ["pandas", "pyyaml"],
      npm_packages: ["left-pad"],
    });
    expect(settings).toEqual({
      mode: "code",
      language: "python",
      image: "python",
      isImageGiven: true,
      session: "build",
      network: true,
      profile: "root",
      pipPackages: ["pandas", "pyyaml"],
      npmPackages: ["left-pad"],
      timeoutSeconds: 300,
      idleTimeoutSeconds: 900,
      maxStdoutBytes: 200_000,
      maxStderrBytes: 100_000,
      maxArtifactBytes: 5000,
      maxArtifactsCount: 3,
      limits: {
        cpuMillicores: 1000,
        memoryMb: 2048,
        pids: 128,
        workspaceMb: 500,
        maxFileSizeBytes: 1000,
        maxFiles: 7,
      },
    });
  });

  it("describes each key, for the reference", () => {
    const shapes = [settingsObjectSchema, settingsObjectSchema.shape.limits.unwrap()];
    for (const { shape } of shapes)
      for (const [key, schema] of Object.entries(shape))
        expect({ key, description: schema.description }).toEqual({
          key,
          description: expect.stringMatching(/.{5}/) as string,
        });
  });

  it("defaults to linux in code mode, and accepts a live sandbox unchanged", () => {
    expect(parseSandboxSettings({ mode: "code" })).toMatchObject({
      limits: { maxFileSizeBytes: 10_485_760, maxFiles: 100 },
      language: "bash",
      image: "linux",
      isImageGiven: false,
    });
  });

  it.each([
    [undefined, "default"],
    ["default", "default"],
    ["workflow", "default"],
    ["isolated", "isolated"],
    ["agent", "isolated"],
    ["my.session-1", "my.session-1"],
  ])("session %s is %s", (session, expected) => {
    expect(parseSandboxSettings({ mode: "code", session }).session).toBe(expected);
  });

  it.each([
    ["python:3.11-slim", "python"],
    ["node:20-slim", "node"],
    ["ubuntu:22.04", "linux"],
    ["sandbox-runtime:base", "linux"],
    ["bash", "linux"],
    ["python:3.11", "python:3.11"],
  ])("requests the image %s as %s", (image, asked) => {
    expect(parseSandboxSettings({ image }).image).toBe(asked);
  });

  it.each([
    [{ network: true }, true],
    [{ network: false }, false],
    [{ network: { enabled: true } }, true],
    [{ network: {} }, false],
    [{ allow_network: true }, true],
    [{ network_mode: "none" }, false],
    [{ network_mode: "bridge" }, true],
    [{ allow_network: false, network: { enabled: false }, network_mode: "none" }, false],
  ])("%j requests a network: %s", (keys, network) => {
    expect(parseSandboxSettings(keys).network).toBe(network);
  });

  it("interprets limits.timeout_seconds by mode", () => {
    const limits = { timeout_seconds: 60 };
    expect(parseSandboxSettings({ mode: "code", limits })).toMatchObject({
      idleTimeoutSeconds: 60,
      timeoutSeconds: undefined,
    });
    expect(parseSandboxSettings({ limits })).toMatchObject({
      idleTimeoutSeconds: undefined,
      timeoutSeconds: 60,
    });
    expect(parseSandboxSettings({ limits, timeout_seconds: 5 }).timeoutSeconds).toBe(5);
  });
});

describe("invalid settings", () => {
  it.each([
    [{ runtme: "python" }, ["runtme"], "nearest known name is `runtime`"],
    [{ timeoutSeconds: 5 }, ["timeoutSeconds"], "nearest known name is `timeout_seconds`"],
    [{ limits: { memory: 5 } }, ["limits", "memory"], "nearest known name is `memory_mb`"],
    [{ network: { enable: true } }, ["network", "enable"], "nearest known name is `enabled`"],
    [{ mode: "both" }, ["mode"], '"compute"|"code"'],
    [{ timeout_seconds: 0 }, ["timeout_seconds"], ">=1"],
    [{ timeout_seconds: 3601 }, ["timeout_seconds"], "<=3600"],
    [{ timeout_seconds: "300" }, ["timeout_seconds"], "expected number, received string"],
    [{ limits: { cpu_millicores: 1.5 } }, ["limits", "cpu_millicores"], "int"],
    [{ limits: { memory_mb: 1 } }, ["limits", "memory_mb"], ">=16"],
    [{ pip_packages: "pandas" }, ["pip_packages"], "expected array"],
    [{ pip_packages: ["ok", 5] }, ["pip_packages", 1], "expected string"],
    [{ mode: "code", session: "a b" }, ["session"], "letters, digits"],
    [{ session: "build" }, ["session"], "needs `mode: code`"],
    [{ idle_timeout_seconds: 5 }, ["idle_timeout_seconds"], "needs `mode: code`"],
    [{ allow_network: true, network: false }, ["allow_network"], "contradict"],
    [{ timeout_seconds: 5, exec_timeout_seconds: 6 }, ["exec_timeout_seconds"], "must not differ"],
    [
      { mode: "code", idle_timeout_seconds: 5, limits: { timeout_seconds: 6 } },
      ["idle_timeout_seconds"],
      "must not differ",
    ],
    [null, [], "must be a runtime"],
    [true, [], "must be a runtime"],
    [["python"], [], "must be a runtime"],
    [{ runtime: null }, ["runtime"], "expected string"],
  ])("%j reports where and what", (value, path, message) => {
    try {
      parseSandboxSettings(value);
    } catch (error) {
      expect(error).toBeInstanceOf(SettingsError);
      expect((error as SettingsError).path).toEqual(path);
      expect((error as SettingsError).message).toContain(message);
      return;
    }
    throw new Error("it was accepted");
  });
});
