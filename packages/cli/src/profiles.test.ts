import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runTestCli, type TestRun } from "./testing/test-host.ts";

let home: string;
let file: string;
let server: Server;
let url: string;
let keys: (string | undefined)[];
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "sandkasten-profiles-"));
  file = join(home, ".config/sandkasten/profiles.yaml");
  keys = [];
  server = createServer((request, response) => {
    keys.push(request.headers.authorization);
    response.setHeader("content-type", "application/json");
    response.end('{"version":"1.2.3","backend":"fake","node":"v24"}');
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await rm(home, { recursive: true, force: true });
});

function run(
  line: string,
  more: { readonly env?: Readonly<Record<string, string>>; readonly stdin?: string } = {},
): Promise<TestRun> {
  const env = { HOME: home, SANDKASTEN_DATA_DIR: join(home, "data"), ...more.env };
  return runTestCli(line.split(" "), { ...more, env, cwd: home });
}

describe("profile", () => {
  it("stores addresses and keys in a file for its owner only, and shows no key", async () => {
    expect((await run(`profile add prod ${url}`, { stdin: "secret-of-prod\n" })).stdout).toBe(
      "prod\n",
    );
    expect((await run(`profile add test ${url}`)).code).toBe(0);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await stat(join(file, ".."))).mode & 0o777).toBe(0o700);
    expect(await readFile(file, "utf8")).toContain("secret-of-prod");
    const { stdout } = await run("profile list");
    expect(stdout).toBe(`prod\t\tyes\t${url}\ntest\t\tno\t${url}\n`);
    expect((await run("profile list --json")).stdout).not.toContain("secret");
  });

  it("is chosen by flag before variable before `use`, and each gets its own key", async () => {
    for (const name of ["one", "two", "three"])
      await run(`profile add ${name} ${url}`, { stdin: `key-of-${name}` });
    await run("profile use one");
    await run("version");
    await run("version", { env: { SANDKASTEN_PROFILE: "two" } });
    await run("version --daemon three", { env: { SANDKASTEN_PROFILE: "two" } });
    await run("version --daemon three --api-key given");
    expect(keys).toEqual([
      "Bearer key-of-one",
      "Bearer key-of-two",
      "Bearer key-of-three",
      "Bearer given",
    ]);
  });

  it("sends no key to another daemon", async () => {
    await run(`profile add prod ${url}`, { stdin: "secret-of-prod" });
    await run(`profile add bare ${url}`);
    await run("profile use prod");
    await run(`version --url ${url}`);
    await run("version", { env: { SANDKASTEN_URL: url } });
    await run("version --daemon bare", { env: { SANDKASTEN_API_KEY: "of-another" } });
    expect(keys).toEqual([undefined, undefined, undefined]);
  });

  it("gives way to a daemon that is named by its configuration, and to `local`", async () => {
    await run(`profile add prod ${url}`, { stdin: "secret-of-prod" });
    await run("profile use prod");
    const env = { SANDKASTEN_LISTEN: "127.0.0.1:1" };
    await run("version --daemon local", { env });
    await run(`version --data-dir ${home}/data`, { env });
    expect(keys).toEqual([]);
    await run("profile use local");
    await run("version", { env });
    expect(keys).toEqual([]);
  });

  it("is gone after `remove`, also as the current one", async () => {
    await run(`profile add prod ${url}`, { stdin: "secret-of-prod" });
    await run("profile use prod");
    expect((await run("profile remove prod")).stdout).toBe("prod\n");
    expect(await readFile(file, "utf8")).not.toMatch(/secret|current/);
    const { code, stderr } = await run("ls --daemon prod");
    expect([code, stderr]).toEqual([2, expect.stringContaining("There is no profile prod")]);
  });

  it.each([
    "profile add local http://a",
    "profile add Up http://a",
    "profile add ../x http://a",
    "profile add x nonsense",
    "profile use no",
    "profile remove no",
    "ls --daemon no --url http://a",
  ])("refuses `%s`", async (line) => {
    expect((await run(line)).code).toBe(2);
  });

  it.each([0o644, 0o660, 0o602])("refuses a file that others can access (%o)", async (mode) => {
    await run(`profile add prod ${url}`, { stdin: "secret-of-prod" });
    await run("profile use prod");
    await chmod(file, mode);
    const { code, stderr } = await run("version");
    expect([code, stderr]).toEqual([1, expect.stringMatching(/Other users.*\n.*chmod 600/)]);
    expect(keys).toEqual([]);
  });

  it.each(["profiles: [", "profiles: {a: {}}", "profiles: {a: {url: 'http://a', api_key: [1]}}"])(
    "reports what is wrong with a file like `%s`",
    async (text) => {
      await mkdir(join(file, ".."), { recursive: true });
      await writeFile(file, text, { mode: 0o600 });
      const { code, stderr } = await run("ls --daemon a");
      expect([code, stderr]).toEqual([1, expect.stringContaining("profiles.yaml")]);
    },
  );
});
