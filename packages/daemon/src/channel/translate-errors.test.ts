import { RUNNER_ERROR_CODES } from "@sandkasten/protocol";
import { describe, expect, it } from "vitest";
import { fromRunnerError } from "./translate-errors.ts";

describe("errors of the runner", () => {
  it.each(RUNNER_ERROR_CODES)("%s has a code of the catalogue", (code) => {
    expect(fromRunnerError("stat", { code, message: "m" }).status).toBeGreaterThanOrEqual(400);
  });

  it("are told by what was asked: a missing command is no missing file", () => {
    const error = { code: "not_found", message: "m" } as const;
    expect(fromRunnerError("stat", error).code).toBe("FILE_NOT_FOUND");
    expect(fromRunnerError("attach", error).code).toBe("EXEC_NOT_FOUND");
    expect(fromRunnerError("dial", { code: "refused", message: "m" }).code).toBe("PORT_REFUSED");
  });

  it("lose control characters and length before they reach a log or a terminal", () => {
    const { message } = fromRunnerError("stat", {
      code: "io",
      message: `\u001b]0;owned\u0007\r\n\u202eevil${"x".repeat(5_000)}`,
    });
    expect(message).not.toMatch(/[\p{Cc}\u202e]/u);
    expect(message.length).toBeLessThanOrEqual(1_000);
  });
});
