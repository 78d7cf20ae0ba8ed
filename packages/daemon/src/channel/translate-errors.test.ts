import { RUNNER_ERROR_CODES } from "@sandkasten/protocol";
import type { RunnerErrorCode } from "@sandkasten/protocol";
import { describe, expect, it } from "vitest";
import { fromRunnerError } from "./translate-errors.ts";

describe("errors of the runner", () => {
  /** The errors that clients get; only errors that neither side caused count as sandbox errors. */
  const statuses: Readonly<Record<RunnerErrorCode, number>> = {
    not_found: 404,
    exists: 409,
    is_directory: 400,
    not_directory: 400,
    not_regular: 400,
    permission: 403,
    no_space: 507,
    too_large: 413,
    too_many: 429,
    loop: 400,
    invalid: 400,
    busy: 409,
    changed: 412,
    refused: 403,
    cancelled: 499,
    no_shell: 409,
    unsupported: 501,
    io: 502,
  };

  it.each(RUNNER_ERROR_CODES)("%s has the status of its kind", (code) => {
    expect(fromRunnerError("stat", { code, message: "m" }).status).toBe(statuses[code]);
  });

  it("depend on the request: a missing command is not a missing file", () => {
    const error = { code: "not_found", message: "m" } as const;
    expect(fromRunnerError("stat", error).code).toBe("FILE_NOT_FOUND");
    expect(fromRunnerError("attach", error).code).toBe("EXEC_NOT_FOUND");
    expect(fromRunnerError("dial", { code: "refused", message: "m" }).code).toBe("PORT_REFUSED");
    expect(fromRunnerError("ports", { code: "invalid", message: "m" }).code).toBe("UNSUPPORTED");
  });

  it("lose control characters and excess length before they reach a log or a terminal", () => {
    const { message } = fromRunnerError("stat", {
      code: "io",
      message: `\u001b]0;owned\u0007\r\n\u202eevil${"x".repeat(5_000)}`,
    });
    expect(message).not.toMatch(/[\p{Cc}\u202e]/u);
    expect(message.length).toBeLessThanOrEqual(1_000);
  });
});
