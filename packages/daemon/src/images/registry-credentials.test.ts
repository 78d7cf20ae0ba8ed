import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { findCredentials } from "./registry-credentials.ts";
import type { RegistryCredentials } from "./registry-credentials.ts";

const HUB = "https://index.docker.io/v1/";
const SECRET = "s3cret:with:colons";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-credentials-"));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function find(
  config: unknown,
  registry?: string,
  timeoutMs = 10_000,
): Promise<RegistryCredentials | undefined> {
  const text = typeof config === "string" ? config : JSON.stringify(config);
  await writeFile(join(directory, "config.json"), text);
  const env = { PATH: `${directory}:/usr/bin:/bin` };
  return await findCredentials(join(directory, "config.json"), registry, { env, timeoutMs });
}

async function helper(name: string, script: string): Promise<void> {
  const path = join(directory, `docker-credential-${name}`);
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
}

const encoded = (text: string): string => Buffer.from(text).toString("base64");

describe("the file", () => {
  test.each([HUB, "index.docker.io", "docker.io", "https://registry-1.docker.io/v2/"])(
    "has the credentials for docker.io under %s",
    async (key) => {
      expect(await find({ auths: { [key]: { auth: encoded(`alice:${SECRET}`) } } })).toEqual({
        username: "alice",
        password: SECRET,
        serveraddress: HUB,
      });
    },
  );

  test.each(["r.example.com:5000", "https://r.example.com:5000", "http://R.example.com:5000/v2/"])(
    "has the credentials for another registry under %s",
    async (key) => {
      const config = { auths: { [key]: { username: "alice", password: SECRET }, other: {} } };
      const serveraddress = "r.example.com:5000";
      expect(await find(config, serveraddress)).toEqual({
        username: "alice",
        password: SECRET,
        serveraddress,
      });
      expect(await find(config, "r.example.com")).toBeUndefined();
      expect(await find(config, "r.example.com:5001")).toBeUndefined();
      expect(await find(config)).toBeUndefined();
    },
  );

  test("can contain an identity token, which takes precedence over a password", async () => {
    const entry = { auth: encoded("alice:"), identitytoken: SECRET };
    expect(await find({ auths: { "r.example.com": entry } }, "r.example.com")).toEqual({
      identitytoken: SECRET,
      serveraddress: "r.example.com",
    });
  });

  test("can be missing, or empty", async () => {
    const nothing = { env: {}, timeoutMs: 1000 };
    expect(await findCredentials(join(directory, "none"), undefined, nothing)).toBeUndefined();
    for (const config of [{}, { auths: null }, { auths: { "docker.io": {} } }, []])
      expect(await find(config)).toBeUndefined();
  });

  test.each([
    `{"auths": {"docker.io": {"auth": ${SECRET}`,
    JSON.stringify({ auths: { "docker.io": { auth: encoded(SECRET.replaceAll(":", "-")) } } }),
  ])("that is damaged is reported, without its content", async (config) => {
    const failure: unknown = await find(config).catch((error: unknown) => error);
    expect(failure).toMatchObject({
      code: "INTERNAL_ERROR",
      message: expect.stringContaining("The registry credentials file"),
    });
    expect(failure).not.toHaveProperty("cause");
    expect(JSON.stringify(failure, Object.getOwnPropertyNames(failure))).not.toContain("s3cret");
  });
});

describe("a credential helper", () => {
  const answer = (username: string): string =>
    `read -r server; printf '{"ServerURL":"%s","Username":"${username}","Secret":"${SECRET}"}' "$server"`;

  test("of one registry takes precedence over the general one, and that over the file", async () => {
    await helper("one", answer("from-one"));
    await helper("all", answer("from-all"));
    const config = {
      credsStore: "all",
      credHelpers: { "r.example.com": "one" },
      auths: { [HUB]: { auth: encoded("from-file:x") } },
    };
    expect(await find(config, "r.example.com")).toMatchObject({
      username: "from-one",
      password: SECRET,
    });
    expect(await find(config)).toMatchObject({ username: "from-all", serveraddress: HUB });
  });

  test("is asked for the registry under the name of the entry", async () => {
    await helper("echo", `read -r server; printf '{"Username":"u","Secret":"%s"}' "$server"`);
    expect(await find({ credsStore: "echo" })).toMatchObject({ password: HUB });
    expect(await find({ credsStore: "echo" }, "r:5000")).toMatchObject({ password: "r:5000" });
  });

  test("can return a token, or have none", async () => {
    await helper("token", answer("<token>"));
    await helper("none", "echo credentials not found in native keychain; exit 1");
    expect(await find({ credsStore: "token" })).toEqual({
      identitytoken: SECRET,
      serveraddress: HUB,
    });
    expect(await find({ credsStore: "none" })).toBeUndefined();
  });

  test.each([
    ["fails", `echo ${SECRET}; echo ${SECRET} >&2; exit 3`, "failed with status 3"],
    ["talks", `echo ${SECRET}`, "valid JSON"],
    ["floods", "yes", "printed too much"],
    ["hangs", "exec sleep 60", "took too long"],
    ["lacks", "echo '{}'", "printed no user name"],
  ])("that %s is reported, without its output", async (name, script, message) => {
    await helper(name, script);
    const failure: unknown = await find(
      { credsStore: name },
      undefined,
      name === "hangs" ? 200 : 10_000,
    ).catch((error: unknown) => error);
    expect(failure).toMatchObject({
      code: "INTERNAL_ERROR",
      message: expect.stringContaining(message),
    });
    expect(failure).not.toHaveProperty("cause");
    expect(JSON.stringify(failure, Object.getOwnPropertyNames(failure))).not.toContain("s3cret");
  });

  test("that does not exist is reported", async () => {
    await expect(find({ credsStore: "absent" })).rejects.toThrow("cannot be started (ENOENT)");
  });

  test.each(["../../bin/sh", "a b", "", "-x"])("is not looked for by the name %j", async (name) => {
    const asked = find({ credHelpers: { "docker.io": name } });
    if (name === "") expect(await asked).toBeUndefined();
    else await expect(asked).rejects.toThrow("an invalid name");
  });
});
