import { describe, expect, it } from "vitest";
import { sandboxCommand } from "./exec-options.ts";

describe("sandboxCommand()", () => {
  it("treats one word as shell text and several as a program", () => {
    expect(sandboxCommand(["cd /tmp && ls"], {})).toBe("cd /tmp && ls");
    expect(sandboxCommand(["ls", "-la", "a b"], {})).toEqual(["ls", "-la", "a b"]);
  });

  it("runs a single word as a program with --argv", () => {
    expect(sandboxCommand(["/hello"], { argv: true })).toEqual(["/hello"]);
  });

  it("quotes several words for the shell with --shell", () => {
    expect(sandboxCommand(["echo", "a b", "it's", "$HOME", ""], { shell: true })).toBe(
      "echo 'a b' 'it'\\''s' '$HOME' ''",
    );
  });

  it("refuses an empty command", () => {
    expect(() => sandboxCommand([], {})).toThrow(/No command/);
  });
});
