import { describe, expect, it } from "vitest";
import {
  directoryPageSchema,
  execEndSchema,
  fileEntrySchema,
  runnerErrorSchema,
  runnerHelloSchema,
} from "./messages.ts";
import { requestSchema } from "./requests.ts";

const entry = {
  path: "/workspace/a",
  name: "a",
  type: "file",
  size: 1,
  mode: 0o644,
  mtime_ms: 5,
  uid: 1000,
  gid: 1000,
  version: "v1",
};
const end = {
  exec_id: "e1",
  end_reason: "exited",
  exit_code: 0,
  duration_ms: 1,
  stdout_bytes: 0,
  stderr_bytes: 0,
  dropped_bytes: 0,
  shell_restarted: false,
};

describe("answers of the runner", () => {
  it("become our types, without unknown fields", () => {
    expect(
      fileEntrySchema.parse({ ...entry, target: "/x", raw_path: "YQ==", surprise: 1 }),
    ).toEqual({
      path: "/workspace/a",
      name: "a",
      type: "file",
      size: 1,
      mode: 0o644,
      mtimeMs: 5,
      uid: 1000,
      gid: 1000,
      target: "/x",
      rawPath: "YQ==",
      version: "v1",
    });
    expect(execEndSchema.parse({ ...end, cwd: "/w" })).toMatchObject({
      execId: "e1",
      reason: "exited",
      exitCode: 0,
      cwd: "/w",
    });
  });

  it("cannot claim the ends that only the daemon determines", () => {
    for (const end_reason of ["unknown", "sandbox_gone", "fine"]) {
      expect(execEndSchema.safeParse({ ...end, end_reason }).success).toBe(false);
    }
  });

  it.each([
    ["a negative count", execEndSchema, { ...end, stdout_bytes: -1 }],
    ["a count beyond 2^53", execEndSchema, { ...end, stdout_bytes: 2 ** 60 }],
    ["an exit code beyond a byte", execEndSchema, { ...end, exit_code: 256 }],
    ["a fraction", fileEntrySchema, { ...entry, size: 0.5 }],
    ["an endless path", fileEntrySchema, { ...entry, path: "x".repeat(200_000) }],
    [
      "more entries than a page has",
      directoryPageSchema,
      { entries: new Array<typeof entry>(1001).fill(entry) },
    ],
    ["an unknown error code", runnerErrorSchema, { code: "SESSION_NOT_FOUND", message: "" }],
    ["another protocol", runnerHelloSchema, { protocol: 2, runner: "x", boot_id: "0".repeat(32) }],
    [
      "a boot id that is not one",
      runnerHelloSchema,
      { protocol: 1, runner: "x", boot_id: "../../etc" },
    ],
  ])("are refused with %s", (_, schema, value) => {
    expect(schema.safeParse(value).success).toBe(false);
  });
});

describe("requests to the runner", () => {
  it.each([
    { op: "exec", exec_id: "a", mode: "shell", cmd_bytes: 1_048_577 },
    { op: "exec", exec_id: "a b", mode: "shell", cmd_bytes: 1 },
    { op: "exec", exec_id: "a", mode: "process", argv: [] },
    { op: "exec", exec_id: "a", mode: "process", argv: ["a\0b"] },
    { op: "exec", exec_id: "a", mode: "process", argv: ["a"], user: "-root" },
    { op: "exec", exec_id: "a", mode: "process", argv: ["a"], env: { "A=B": "" } },
    { op: "stat", path: "a\0b" },
    { op: "stat", path: "" },
    { op: "list", path: "/", limit: 1001 },
    { op: "dial", port: 0 },
    { op: "signal", exec_id: "a", signal: 65 },
    { op: "reboot" },
    { op: "ping", extra: 1 },
  ])("are refused as %j", (request) => {
    expect(requestSchema.safeParse(request).success).toBe(false);
  });
});
