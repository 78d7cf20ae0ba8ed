import { ERROR_CATALOGUE, SandboxError } from "@sandkasten/protocol";
import type { ErrorCode } from "@sandkasten/protocol";
import { describe, expect, it } from "vitest";
import { failureForLog } from "../../failure-for-log.ts";
import { NativeErrors } from "./native-errors.ts";

const errors = new NativeErrors(["/var/lib/sandkasten"]);
const SECRET = "/var/lib/sandkasten/sandboxes/x: permission denied";

describe("a response to an error", () => {
  it("has the code, message, details and request id of an error of the catalogue", () => {
    const error = new SandboxError("FILE_NOT_FOUND", "/workspace/x does not exist", {
      details: { a: 1 },
    });
    expect(errors.of(error, "r1")).toEqual({
      status: 404,
      code: "FILE_NOT_FOUND",
      message: "/workspace/x does not exist",
      retryable: false,
      body: {
        error_code: "FILE_NOT_FOUND",
        message: "/workspace/x does not exist",
        details: { a: 1 },
        request_id: "r1",
      },
      hidden: false,
    });
  });

  it.each([
    ["something that is no error of the catalogue", new Error(SECRET)],
    [
      "an error of the system",
      Object.assign(new Error(SECRET), { code: "EACCES", statusCode: 400 }),
    ],
    ["no error at all", SECRET],
    [
      "an internal error",
      new SandboxError("INTERNAL_ERROR", SECRET, { details: { path: SECRET } }),
    ],
    [
      "an error of Fastify's that is the daemon's fault",
      Object.assign(new Error(SECRET), { code: "FST_ERR_X", statusCode: 500 }),
    ],
  ])("reveals nothing of %s", (_name, error) => {
    const { status, body, hidden } = errors.of(error, "r2");
    expect({ status, hidden }).toEqual({ status: 500, hidden: true });
    expect(Object.keys(body)).toEqual(["error_code", "message", "request_id"]);
    expect(JSON.stringify(body)).not.toMatch(/sandkasten|permission|denied/);
    expect(body.message).toContain("r2");
  });

  it("removes paths of the host from messages and details, and keeps those of the sandbox", () => {
    const error = new SandboxError(
      "STORAGE_FULL",
      "no space left to make /workspace/a: /var/lib/sandkasten/disks/x.img (and '/var/lib/sandkasten'); free some",
      { details: { at: "/var/lib/sandkasten/x", kept: 3 } },
    );
    expect(errors.of(error, "r").body).toMatchObject({
      message:
        "no space left to make /workspace/a: (a path of the daemon) (and '(a path of the daemon)'); free some",
      details: { at: "(a path of the daemon)", kept: 3 },
    });
  });

  it("does not change what a command printed", () => {
    const details = { output: "/var/lib/sandkasten is a nice name" };
    const error = new SandboxError("COMMAND_TIMEOUT", "too long", { details });
    expect(errors.of(error, "r").body.details).toEqual(details);
  });

  it.each([
    ["FST_ERR_CTP_BODY_TOO_LARGE", 413, "PAYLOAD_TOO_LARGE"],
    ["FST_FILES_LIMIT", 413, "PAYLOAD_TOO_LARGE"],
    ["FST_ERR_CTP_INVALID_JSON_BODY", 400, "INVALID_REQUEST"],
    ["FST_INVALID_MULTIPART_CONTENT_TYPE", 406, "INVALID_REQUEST"],
  ] as [string, number, ErrorCode][])(
    "turns %s into an error of the catalogue",
    (code, statusCode, expected) => {
      const { status, body } = errors.of(
        Object.assign(new Error(SECRET), { code, statusCode }),
        "r",
      );
      expect(body.error_code).toBe(expected);
      expect(status).toBe(ERROR_CATALOGUE[expected].status);
      expect(body.message).not.toContain("permission");
    },
  );
});

describe("an error in the log", () => {
  it("includes its causes, but not its details", () => {
    const cause = new Error("the disk is broken");
    const error = new SandboxError("COMMAND_TIMEOUT", "too long", {
      cause,
      details: { output: "secret" },
    });
    const logged = failureForLog(error);
    expect(logged).toMatchObject({
      type: "SandboxError",
      code: "COMMAND_TIMEOUT",
      message: "too long",
      cause: { type: "Error", message: "the disk is broken" },
    });
    expect(JSON.stringify(logged)).not.toContain("secret");
  });

  it("includes nothing that the runner says, because it can name files of the sandbox", () => {
    const error = new SandboxError("SANDBOX_IO_ERROR", "read /workspace/secret: broken", {
      details: { operation: "read", reason: "io" },
    });
    const logged = failureForLog(new Error("cut off", { cause: error }));
    expect(logged.cause?.message).toBe("read failed in the sandbox: io");
    expect(JSON.stringify(logged)).not.toContain("secret");
  });
});
