import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { freshShell, loginShell, startOptions } from "./exec-request.ts";

function run(argv: readonly string[], env: Record<string, string> = {}, input = "") {
  const [program = "", ...args] = argv;
  const { status, stdout, stderr } = spawnSync(program, args, {
    input,
    env: { PATH: "/usr/bin:/bin", HOME: "/nonexistent", ...env },
    encoding: "utf8",
  });
  return { status, stdout, stderr };
}

describe("a fresh shell", () => {
  it("runs text unchanged and returns its exit code", () => {
    const text = `x='a "b" $c'; echo "$x"; cat; exit 3`;
    expect(run(freshShell(text), {}, "in")).toMatchObject({ status: 3, stdout: 'a "b" $c\nin' });
  });

  it("is bash if it exists, otherwise sh", () => {
    const text = 'echo "${BASH_VERSION:+bash}${BASH_VERSION:-sh}"';
    expect(run(freshShell(text)).stdout).toMatch(/^bash/);
    const without = run(freshShell(text), { PATH: "/nonexistent" });
    expect(without).toMatchObject({ status: 0, stdout: "sh\n" });
  });

  it("accepts no more than Linux does, and says so", () => {
    expect(() => freshShell("x".repeat(131_072))).toThrow(/write it to a file/);
    expect(run(freshShell(`: ${"x".repeat(131_000)}`)).status).toBe(0);
  });
});

describe("a login shell", () => {
  it("reads what is typed", () => {
    expect(run(loginShell(), {}, "echo $((20 + 1)); exit 5\n")).toMatchObject({
      status: 5,
      stdout: "21\n",
    });
  });
});

describe("a list of arguments for the stateful shell", () => {
  it("means the same there as elsewhere", () => {
    const argv = ["printf", "%s|", "it's", "a b", "$HOME", "", '"', "\\", "*"];
    const { command } = startOptions({ cmd: argv, stateful: true }, {});
    expect(command.kind).toBe("shell");
    const text = command.kind === "shell" ? String(command.text) : "";
    expect(run(["/bin/sh", "-c", text]).stdout).toBe(run(argv).stdout);
  });
});
