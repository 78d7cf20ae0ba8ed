import { afterAll, beforeAll, expect, it } from "vitest";
import { TestDaemon } from "../testing/test-daemon.ts";

let daemon: TestDaemon;
beforeAll(async () => {
  daemon = await TestDaemon.start();
});
afterAll(async () => await daemon[Symbol.asyncDispose]());

const asUserOf = (key: string) => ({ env: { SANDKASTEN_API_KEY: key } });

it("creates a key that works, prints only the key to stdout, and revokes it", async () => {
  const made = await daemon.run(["key", "create", "ci", "--owner", "team", "--scope", "use"]);
  expect([made.code, made.stdout]).toEqual([
    0,
    expect.stringMatching(/^sk-sandbox-key_[0-9a-f]{16}-[\w-]{43}\n$/),
  ]);
  const [, id = ""] = /^(key_[0-9a-f]{16}) \(use\), owner team\n$/.exec(made.stderr) ?? [];
  const team = asUserOf(made.stdout.trimEnd());
  expect((await daemon.run(["open"], team)).code).toBe(0);
  expect((await daemon.run(["ls"], team)).code).toBe(0);

  const listed = await daemon.run(["key", "list"]);
  expect(listed.stdout).toContain(`${id}\tci\tteam\tuse\tvalid\t`);
  expect(listed.stdout).toContain("config-alice\talice\talice\tadmin\tconfigured\t-\t-\n");
  expect(listed.stdout).not.toContain(made.stdout.trimEnd());

  expect(await daemon.run(["key", "revoke", id])).toMatchObject({ code: 0, stdout: `${id}\n` });
  expect(await daemon.run(["ls"], team)).toMatchObject({ code: 1, stdout: "" });
  expect((await daemon.run(["key", "ls"])).stdout).toContain(`${id}\tci\tteam\tuse\trevoked\t`);
});

it("prints JSON", async () => {
  const options = ["--expires-in", "60", "--max-sessions", "3", "--json"];
  const { stdout } = await daemon.run(["key", "create", "limited", ...options]);
  const made = JSON.parse(stdout) as { id: string; key: string };
  expect(made).toMatchObject({ name: "limited", owner: "limited", maxSessions: 3 });
  const listed = JSON.parse((await daemon.run(["key", "list", "--json"])).stdout) as unknown[];
  expect(listed).toContainEqual(expect.objectContaining({ id: made.id }));
  const revoked = await daemon.run(["key", "revoke", made.id, "--json"]);
  expect(JSON.parse(revoked.stdout)).toEqual([made.id]);
});

it("reports an invalid scope or number, an unknown key, and missing rights", async () => {
  for (const wrong of [
    ["--scope", "root"],
    ["--expires-in", "0"],
    ["--expires-in", "soon"],
    ["--max-sessions", "-1"],
  ])
    expect([wrong, (await daemon.run(["key", "create", "ci", ...wrong])).code]).toEqual([wrong, 2]);
  const unknown = await daemon.run(["key", "revoke", "key_0000000000000000"]);
  expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining("there is no key")]);
  const configured = await daemon.run(["key", "revoke", "config-alice"]);
  expect([configured.code, configured.stderr]).toEqual([
    1,
    expect.stringContaining("configuration"),
  ]);
  const { stdout: reader } = await daemon.run(["key", "create", "reader", "--scope", "read"]);
  const refused = await daemon.run(["key", "list"], asUserOf(reader.trimEnd()));
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("admin scope")]);
});
