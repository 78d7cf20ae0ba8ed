import { describe, expect, it } from "vitest";
import { runTestCli } from "./testing/test-host.ts";

async function complete(...words: readonly string[]): Promise<readonly string[]> {
  const { stdout, code } = await runTestCli(["complete", "bash", "--", ...words]);
  expect(code).toBe(0);
  return stdout.split("\n").filter((line) => line !== "");
}

describe("completion", () => {
  it("offers the commands with this prefix", async () => {
    expect(await complete("re")).toEqual(["renew", "resume"]);
    expect(await complete("")).toEqual(expect.arrayContaining(["run", "exec", "doctor", "ls"]));
  });

  it("does not offer hidden commands", async () => {
    expect(await complete("comple")).toEqual(["completion"]);
  });

  it("offers subcommands", async () => {
    expect(await complete("image", "")).toEqual([
      "ls",
      "pull",
      "import",
      "build",
      "build-standard",
      "rm",
      "gc",
      "help",
    ]);
  });

  it("offers the options of the command and the global ones", async () => {
    expect(await complete("ls", "--")).toEqual(
      expect.arrayContaining(["--all", "--status", "--json", "--url"]),
    );
  });

  it("offers the values of an option or argument", async () => {
    expect(await complete("ls", "--status", "p")).toEqual(["paused"]);
    expect(await complete("completion", "")).toEqual(["bash", "zsh", "fish"]);
  });

  it("does not treat the value of an option as an argument", async () => {
    expect(await complete("--url", "http://x", "pau")).toEqual(["pause"]);
  });

  it("offers the commands of agents and workflows", async () => {
    expect(await complete("agent", "r")).toEqual(["run", "runs"]);
    expect(await complete("workflow", "in")).toEqual(["inspect"]);
    expect(await complete("agents", "")).toEqual(["serve", "help"]);
    expect(await complete("workflow", "runs", "--status", "w")).toEqual(["waiting_approval"]);
  });

  it("says nothing about the command after `--`", async () => {
    expect(await complete("run", "--", "l")).toEqual([]);
  });
});
