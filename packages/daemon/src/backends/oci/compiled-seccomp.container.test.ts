/** The filter that crun compiled once confines every later sandbox, and none starts without one. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { composeEmbedded } from "../../compose-backends.ts";
import type { EmbeddedOptions } from "../../compose-backends.ts";
import type { LauncherCreate } from "./launcher.ts";

const LIMITS = {
  memoryBytes: 64 * 2 ** 20,
  cpuMillicores: 1000,
  pids: 32,
  diskBytes: 16 * 2 ** 20,
  diskInodes: 1_024,
};
const ANNOTATION = "run.oci.seccomp_bpf_data";

async function withSandboxes(
  count: number,
  adjustCreate: NonNullable<EmbeddedOptions["adjustCreate"]>,
): Promise<readonly { readonly filter: Buffer; readonly status: string }[]> {
  const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  const ids = Array.from({ length: count }, (_, at) => `sbx_filter${at}`);
  const { backend } = await composeEmbedded({
    dataDir,
    runtime: "crun",
    adjustCreate: (request) => adjustCreate({ ...request, keep_runtime_files: true }),
  });
  try {
    const found = [];
    for (const id of ids) {
      await backend.create({ id, image: "host", limits: LIMITS, profile: "restricted", env: {} });
      const record = await readFile(join(dataDir, "sandboxes", id, "sandbox.json"), "utf8");
      const { pid } = JSON.parse(record) as { readonly pid: number };
      found.push({
        filter: await readFile(join(dataDir, "runtime", id, "seccomp.bpf")),
        status: await readFile(`/proc/${pid}/status`, "utf8"),
      });
    }
    return found;
  } finally {
    for (const id of ids) await backend.destroy(id);
    await rm(dataDir, { recursive: true, force: true });
  }
}

test("crun compiles the profile once, and the same filter confines every sandbox", async () => {
  const requests: LauncherCreate[] = [];
  const [first, ...others] = await withSandboxes(3, (request) => {
    requests.push(request);
    return request;
  });
  expect(requests.map(({ config }) => ANNOTATION in (config.annotations ?? {}))).toEqual([
    false,
    true,
    true,
  ]);
  expect(first?.filter.length).toBeGreaterThan(1_000);
  for (const other of others) expect(other.filter).toEqual(first?.filter);
  for (const { status } of [first, ...others].filter((one) => one !== undefined))
    expect(status).toMatch(/^Seccomp:\s+2$/mu);
});

test("a runtime that ignores the compiled filter starts nothing, and compiles it again", async () => {
  const attempts: LauncherCreate[] = [];
  const sandboxes = await withSandboxes(3, (request) => {
    attempts.push(request);
    return { ...request, config: { ...request.config, annotations: {} } };
  });
  // The second sandbox takes two attempts; after that, no filter is passed.
  expect(attempts.map(({ config }) => config.linux.seccomp.syscalls.length > 0)).toEqual([
    true,
    false,
    true,
    true,
  ]);
  for (const { filter } of sandboxes) expect(filter).toEqual(sandboxes[0]?.filter);
});
