import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runTestCli } from "../testing/test-host.ts";

let scratch: string;
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
});
afterEach(async () => {
  await rm(scratch, { recursive: true, force: true });
});

describe("init", () => {
  it("writes a file that `config` then reads, for its owner only", async () => {
    const { code, stdout } = await runTestCli(["init"], { cwd: scratch });
    const path = join(scratch, "sandkasten.yaml");
    expect([code, stdout]).toEqual([0, `${path}\n`]);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    await writeFile(path, (await readFile(path, "utf8")).replace(/^# (listen: .*)$/m, "$1"));
    const shown = await runTestCli(["config"], { cwd: scratch });
    expect(shown.stdout).toContain(`listen\t127.0.0.1:8080\t${path}:`);
  });

  it("never replaces a file without --force", async () => {
    const path = join(scratch, "mine.yaml");
    await writeFile(path, "precious");
    const refused = await runTestCli(["init", "-o", "mine.yaml", "--yes"], { cwd: scratch });
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("--force")]);
    expect(await readFile(path, "utf8")).toBe("precious");
    await runTestCli(["init", "-o", "mine.yaml", "--force"], { cwd: scratch });
    expect(await readFile(path, "utf8")).toContain("# listen:");
  });
});

describe("config", () => {
  it("shows where each value comes from and hides secrets", async () => {
    const env = { SANDKASTEN_API_KEY: "top-secret-key", SANDKASTEN_LOG_LEVEL: "debug" };
    const options = { cwd: scratch, env };
    const { stdout } = await runTestCli(["config", "--set", "defaults.mem_limit_mb=777"], options);
    expect(stdout).toMatch(/^log_level\tdebug\tSANDKASTEN_LOG_LEVEL$/m);
    expect(stdout).toMatch(/^defaults\.mem_limit_mb\t777\t--set defaults\.mem_limit_mb$/m);
    expect(stdout).toMatch(/^api_key\t\*\*\*\tSANDKASTEN_API_KEY$/m);
    const json = await runTestCli(["config", "--json"], options);
    expect(stdout + json.stdout).not.toContain("top-secret-key");
  });

  it("reports every problem and exits with 1", async () => {
    const args = ["config", "--set", "listn=x", "--set", "log_level=loud"];
    const { code, stderr } = await runTestCli(args, { cwd: scratch });
    expect(code).toBe(1);
    expect(stderr).toContain("--set listen");
    expect(stderr).toContain("loud");
  });

  it("requires key and value for --set", async () => {
    expect((await runTestCli(["config", "--set", "listen"], { cwd: scratch })).code).toBe(2);
  });
});
