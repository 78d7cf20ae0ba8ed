import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestDaemon } from "../testing/test-daemon.ts";

let daemon: TestDaemon;
beforeAll(async () => {
  daemon = await TestDaemon.start();
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

describe("open", () => {
  it("prints the id of a session that stays", async () => {
    const id = await daemon.open("--ttl", "1m", "--metadata", "owner=me", "--env", "COLOUR=blue");
    const { stdout } = await daemon.run(["exec", id, "--", "printenv COLOUR"]);
    expect(stdout).toBe("blue\n");
    const { stdout: listed } = await daemon.run(["ls", "--json", "--metadata", "owner=me"]);
    expect(JSON.parse(listed)).toMatchObject([{ id, ttlSeconds: 60, metadata: { owner: "me" } }]);
  });

  it("returns the active session of a key", async () => {
    const first = await daemon.open("--key", "user:me:work");
    expect(await daemon.open("--key", "user:me:work")).toBe(first);
  });

  it("names the missing image, and says what to do", async () => {
    const { code, stderr, stdout } = await daemon.run(["open", "--image", "nowhere"]);
    expect([code, stdout]).toEqual([1, ""]);
    const [what, todo] = stderr.split("\n");
    expect(what).toMatch(/^✗ .*nowhere/);
    expect(todo).toMatch(/^→ .*sandkasten image ls/);
  });

  it.each([
    ["--metadata", "novalue"],
    ["--ttl", "soon"],
    ["--cpus", "many"],
    ["--profile", "god"],
  ])("refuses %s %s as invalid usage", async (...args) => {
    const { code, stderr } = await daemon.run(["open", ...args]);
    expect(code).toBe(2);
    expect(stderr.trimEnd().split("\n")).toHaveLength(2);
  });
});

describe("ls", () => {
  it("shows only active sessions, and with --all ended ones after them", async () => {
    const gone = await daemon.open();
    await daemon.run(["rm", gone]);
    const here = await daemon.open();
    const ids = async (...args: string[]): Promise<readonly string[]> => {
      const { stdout } = await daemon.run(["ls", ...args]);
      return stdout
        .trimEnd()
        .split("\n")
        .map((line) => line.split("\t")[0] ?? "");
    };
    expect(await ids()).toContain(here);
    expect(await ids()).not.toContain(gone);
    const all = await ids("--all");
    expect(all.indexOf(here)).toBeGreaterThanOrEqual(0);
    expect(all.indexOf(gone)).toBeGreaterThan(all.indexOf(here));
    expect(await ids("--status", "destroyed")).toContain(gone);
  });

  it("prints tab-separated fields without a heading if piped", async () => {
    const id = await daemon.open();
    const { stdout } = await daemon.run(["ls"]);
    const line = stdout.split("\n").find((one) => one.startsWith(id));
    expect(line?.split("\t")).toEqual([
      id,
      "running",
      "host",
      expect.stringMatching(/^\d{4}-.*Z$/),
      expect.stringMatching(/^\d{4}-.*Z$/),
      "",
      "",
    ]);
  });

  it("prints a table with a heading on a terminal, without colours if they are off", async () => {
    await daemon.open();
    const { stdout } = await daemon.run(["ls"], { columns: 120, env: { NO_COLOR: "1" } });
    expect(stdout.split("\n")[0]).toMatch(
      /^SESSION +STATUS +IMAGE +CREATED +EXPIRES +WORKSPACE +KEY$/,
    );
    expect(stdout).not.toContain("\u001b");
    const coloured = await daemon.run(["ls"], { columns: 120 });
    expect(coloured.stdout).toContain("\u001b[32mrunning");
  });
});

describe("rm", () => {
  it("destroys what it can, reports the rest and exits with 1", async () => {
    const id = await daemon.open();
    const { code, stdout, stderr } = await daemon.run(["rm", "no-such-session", id]);
    expect([code, stdout]).toEqual([1, `${id}\n`]);
    expect(stderr).toContain("no-such-session");
  });

  it("destroys all with --all, and requires ids otherwise", async () => {
    const id = await daemon.open();
    const { stdout, code } = await daemon.run(["rm", "--all", "--json"]);
    expect(JSON.parse(stdout)).toContain(id);
    expect(code).toBe(0);
    expect((await daemon.run(["ls"])).stdout).toBe("");
    expect((await daemon.run(["rm"])).code).toBe(2);
    expect((await daemon.run(["rm", "--all", id])).code).toBe(2);
  });
});

describe("an id", () => {
  const letters = (id: string): string => id.replace("ses_", "");

  it("can be a prefix of one session, with or without its type", async () => {
    const id = await daemon.open();
    const prefix = id.slice(0, 16);
    for (const given of [prefix, letters(prefix)]) {
      const { stdout } = await daemon.run(["exec", given, "echo here"]);
      expect(stdout).toBe("here\n");
      expect(JSON.parse((await daemon.run(["inspect", given, "--json"])).stdout)).toMatchObject({
        id,
      });
    }
    expect((await daemon.run(["kill", prefix])).stdout).toBe(`${id}\n`);
    // Ended sessions are also found if no active one matches.
    expect((await daemon.run(["ps", prefix])).code).toBe(0);
  });

  it("is refused if it matches several sessions, or is too short", async () => {
    const ids = await Promise.all(Array.from({ length: 3 }, () => daemon.open()));
    const ambiguous = await daemon.run(["rm", "ses_"]);
    expect([ambiguous.code, ambiguous.stdout]).toEqual([1, ""]);
    expect(ambiguous.stderr).toContain('"ses_" is too short');
    const { stdout } = await daemon.run(["ls"]);
    for (const id of ids) expect(stdout).toContain(id);
  });

  it("can be a prefix for commands of a session", async () => {
    const id = await daemon.open();
    const { stdout } = await daemon.run(["exec", "--detach", id, "echo from the log"]);
    const exec = stdout.trim();
    expect((await daemon.run(["logs", "--follow", id, exec.slice(0, -4)])).stdout).toBe(
      "from the log\n",
    );
    expect((await daemon.run(["cancel", id, exec.slice(0, -4)])).code).toBe(0);
    expect((await daemon.run(["logs", id, "exe_f0f0f0"])).stderr).toContain("exe_f0f0f0");
  });
});

describe("inspect and renew", () => {
  it("show a session and extend its lease", async () => {
    const id = await daemon.open("--ttl", "1m", "--metadata", "team=data");
    const { stdout } = await daemon.run(["inspect", id]);
    expect(stdout).toMatch(new RegExp(`^id\t${id}$`, "m"));
    expect(stdout).toMatch(/^metadata\t\{"team":"data"\}$/m);
    expect(stdout).not.toContain("ttl_seconds");
    const before = Date.parse((await daemon.run(["renew", id])).stdout.trim());
    const renewed = await daemon.run(["renew", id, "--ttl", "2h", "--json"]);
    const info = JSON.parse(renewed.stdout) as { readonly expiresAt: string };
    expect(info).toMatchObject({ id, ttlSeconds: 7200 });
    expect(Date.parse(info.expiresAt)).toBeGreaterThan(before);
  });
});

describe("pause, resume, stats and isolation", () => {
  it("pause and resume a session, and show its usage and isolation", async () => {
    const id = await daemon.open();
    expect((await daemon.run(["pause", id])).stdout).toBe(`${id}\n`);
    expect((await daemon.run(["ls", "--status", "paused"])).stdout).toContain(id);
    const paused = await daemon.run(["exec", id, "--", "true"]);
    expect([paused.code, paused.stderr]).toEqual([1, expect.stringContaining("paused")]);
    const resumed = await daemon.run(["resume", id, "--json"]);
    expect(JSON.parse(resumed.stdout)).toMatchObject({ id, status: "running" });
    const stats = await daemon.run(["stats", id]);
    expect(stats.stdout).toMatch(/^memory\t\d+\t\d+$/m);
    const isolation = await daemon.run(["isolation", id]);
    expect(isolation.stdout).toBe("missing\tmemory\tan object in the test's own process\n");
  });
});

describe("workspace", () => {
  it("creates a workspace, and keeps an existing one", async () => {
    for (const _ of [1, 2])
      expect(await daemon.run(["workspace", "create", "fresh-one"])).toMatchObject({
        code: 0,
        stdout: "fresh-one\n",
      });
    expect((await daemon.run(["workspace", "ls"])).stdout).toMatch(/^fresh-one\t/m);
    expect((await daemon.run(["workspace", "create", "UPPER"])).code).toBe(1);
  });

  it("lists workspaces, refuses to remove one in use, and removes it afterwards", async () => {
    const id = await daemon.open("--workspace", "my-project");
    const { stdout } = await daemon.run(["workspace", "ls"]);
    expect(stdout).toMatch(new RegExp(`^my-project\t.*\t${id}$`, "m"));
    const refused = await daemon.run(["workspace", "rm", "my-project"]);
    expect(refused.code).toBe(1);
    await daemon.run(["rm", id]);
    expect(await daemon.run(["workspace", "rm", "my-project"])).toMatchObject({
      code: 0,
      stdout: "my-project\n",
    });
  });
});

describe("image", () => {
  it("prints sizes in bytes if piped", async () => {
    const { stdout } = await daemon.run(["image", "ls"]);
    expect(stdout).toMatch(/^host\trootfs\t1\t.*\tfake:host\tyes$/m);
  });

  it("reports what the daemon refuses", async () => {
    const { code, stderr } = await daemon.run(["image", "pull", "python:3"]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^✗ .+\n→ .+\n$/)]);
  });
});
