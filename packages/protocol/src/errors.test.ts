import { describe, expect, it } from "vitest";
import { ERROR_CATALOGUE, isErrorCode, SandboxError } from "./errors.ts";

describe("SandboxError", () => {
  it("takes status and retryability from the catalogue and keeps its cause", () => {
    const cause = new Error("below");
    const error = new SandboxError("SANDBOX_UNREACHABLE", "sbx_1 did not answer", {
      cause,
      details: { id: "sbx_1" },
    });
    expect(error).toMatchObject({
      name: "SandboxError",
      code: "SANDBOX_UNREACHABLE",
      status: 503,
      retryable: true,
      cause,
    });
    expect(error.details).toEqual({ id: "sbx_1" });
  });

  it("has the statuses that clients of the HTTP API rely on", () => {
    const statuses = Object.fromEntries(
      Object.entries(ERROR_CATALOGUE).map(([code, entry]) => [code, entry.status]),
    );
    expect(statuses).toMatchObject({
      SESSION_NOT_FOUND: 404,
      SESSION_EXPIRED: 410,
      INVALID_IMAGE: 400,
      COMMAND_TIMEOUT: 504,
      INVALID_REQUEST: 400,
      UNAUTHORIZED: 401,
      FILE_NOT_FOUND: 404,
      PAYLOAD_TOO_LARGE: 413,
      CONFLICT: 409,
      QUOTA_EXCEEDED: 429,
      STORAGE_FULL: 507,
      INTERNAL_ERROR: 500,
    });
  });

  it("has only its own codes and nothing inherited", () => {
    expect(isErrorCode("CONFLICT")).toBe(true);
    expect(isErrorCode("toString")).toBe(false);
    expect(isErrorCode(404)).toBe(false);
  });
});
