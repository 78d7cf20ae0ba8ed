/** Options, variables and defaults, and invalid values. */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadConfig } from "./config.ts";

let dir: string;
beforeAll(async () => (dir = await mkdtemp(join(tmpdir(), "sandkasten-config-"))));
afterAll(async () => await rm(dir, { recursive: true, force: true }));

test("by default, the service listens on loopback, with a database beside the agents and the local daemon", async () => {
  expect(await loadConfig({ dir, env: {} })).toMatchObject({
    host: "127.0.0.1",
    port: 8587,
    databasePath: join(dir, ".sandkasten/agents.db"),
    apiKey: undefined,
    daemonUrl: "http://127.0.0.1:8080",
    filesDir: undefined,
    leaseSeconds: 240,
  });
});

test("options take precedence over variables, and variables over defaults", async () => {
  const env = {
    SANDKASTEN_AGENTS_LISTEN: "127.0.0.1:1",
    SANDKASTEN_AGENTS_DATA_DIR: "/data",
    SANDKASTEN_URL: "http://daemon:1",
    SANDKASTEN_API_KEY: "",
    SANDKASTEN_AGENTS_MODEL: "openai/x",
  };
  expect(await loadConfig({ dir, env })).toMatchObject({
    port: 1,
    databasePath: "/data/agents.db",
    daemonUrl: "http://daemon:1",
    daemonApiKey: undefined,
    defaultModel: "openai/x",
  });
  const options = { dir, env, listen: "[::1]:2", dataDir: "/other", daemonUrl: "http://b" };
  expect(await loadConfig(options)).toMatchObject({
    host: "::1",
    port: 2,
    databasePath: "/other/agents.db",
    daemonUrl: "http://b",
  });
});

test("a folder `files` beside the agents is their file store", async () => {
  await mkdir(join(dir, "files"));
  expect((await loadConfig({ dir, env: {} })).filesDir).toBe(join(dir, "files"));
});

test.for([
  "0.0.0.0:8587",
  "[::]:8587",
  "192.168.1.5:80",
  "agents.example:80",
  "127.0.0.1.example:1",
])("%s is refused without a key", async (listen) => {
  await expect(loadConfig({ dir, env: {}, listen })).rejects.toThrow(
    /reachable from other machines and no key is set. Set SANDKASTEN_AGENTS_API_KEY/,
  );
  const env = { SANDKASTEN_AGENTS_API_KEY: "a-long-secret" };
  expect(await loadConfig({ dir, env, listen })).toMatchObject({ apiKey: "a-long-secret" });
});

test.for(["127.0.0.1:0", "127.9.9.9:80", "localhost:80", "[::1]:80"])(
  "%s needs no key",
  async (listen) => {
    await expect(loadConfig({ dir, env: {}, listen })).resolves.toBeDefined();
  },
);

test("keys that are easy to guess or cannot be sent are refused", async () => {
  for (const apiKey of ["short", "with a space", "ümlaut-key"])
    await expect(loadConfig({ dir, env: {}, apiKey })).rejects.toThrow(/at least 8 printable/);
});

test("invalid values are refused with what to write instead", async () => {
  for (const listen of ["8587", "127.0.0.1", "127.0.0.1:99999", "[zz]:1", "::1:80"])
    await expect(loadConfig({ dir, env: {}, listen })).rejects.toThrow(/Write it as host:port/);
  const env = { SANDKASTEN_AGENTS_MAX_RUNS: "many" };
  await expect(loadConfig({ dir, env })).rejects.toThrow(
    /MAX_RUNS is "many", but must be a number/,
  );
  const policy = { STATION_SANDBOX_ENABLED: "perhaps" };
  await expect(loadConfig({ dir, env: policy })).rejects.toThrow(/STATION_SANDBOX_ENABLED/);
});
