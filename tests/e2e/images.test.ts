/** Images of several keys, and the pool, with real sandboxes. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { fillSmallRoot, packTree } from "../support/images.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const ADMIN = "administrators-key";
const TENANTS = { bob: "bobs-key-0123456789", eve: "eves-key-0123456789" };

let daemon: TestDaemon;
let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-e2e-images-"));
  const apiKeys = Object.entries(TENANTS).map(([name, key]) => `${name}=${key}`);
  daemon = await TestDaemon.start({
    settings: { API_KEY: ADMIN, API_KEYS: apiKeys.join(","), POOL: "python=1" },
  });
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

async function call(key: string, path: string, body?: Uint8Array | object) {
  const response = await fetch(`${daemon.url}/v1${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { authorization: `Bearer ${key}` },
    ...(body !== undefined && {
      body: body instanceof Uint8Array ? new Uint8Array(body) : JSON.stringify(body),
    }),
  });
  const answer = (await response.json()) as Record<string, unknown>;
  expect(answer).not.toHaveProperty("error_code");
  return answer;
}

/** Imports `python` for a key, with a file that names the owner. */
async function importPython(key: string, who: string): Promise<void> {
  const root = join(scratch, who);
  await fillSmallRoot(root, "busybox");
  await writeFile(join(root, "who"), who);
  const tarball = await readFile(await packTree(root));
  await call(key, "/images/import?reference=python:3.11-slim", tarball);
}

async function openPython(key: string) {
  const { id, acquire_source: source } = await call(key, "/sessions", { image: "python" });
  const { output } = await call(key, `/sessions/${String(id)}/exec`, { cmd: "cat /who" });
  return { source, output };
}

async function pooled(): Promise<number> {
  const headers = { authorization: `Bearer ${ADMIN}` };
  const text = await (await fetch(`${daemon.url}/v1/metrics`, { headers })).text();
  return Number(/^sandkasten_pooled_sandboxes (\d+)$/mu.exec(text)?.[1]);
}

test("a tenant's `python` is its own alone, and the pool follows the administrator's", async () => {
  expect(await pooled()).toBe(0);
  await importPython(TENANTS.eve, "eve");
  expect(await pooled()).toBe(0);
  await importPython(ADMIN, "administrator");
  await expect.poll(pooled).toBe(1);
  expect(await openPython(TENANTS.bob)).toEqual({ source: "pool", output: "administrator" });
  expect(await openPython(TENANTS.eve)).toEqual({ source: "cold", output: "eve" });

  await expect.poll(pooled).toBe(1);
  await importPython(ADMIN, "administrator-2");
  await expect.poll(pooled).toBe(1);
  await expect
    .poll(async () => await openPython(TENANTS.bob), { timeout: 60_000 })
    .toEqual({ source: "pool", output: "administrator-2" });
});
