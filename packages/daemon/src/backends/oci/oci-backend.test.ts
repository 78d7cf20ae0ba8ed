import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { backendSuite, channelSuite } from "@sandkasten/testkit";
import { composeEmbedded } from "../../compose-backends.ts";
import { findRuntimes, pickRuntime, runtimeChecks } from "./runtimes.ts";
import { describe, expect, test } from "vitest";

const LIMITS = {
  memoryBytes: 256 * 1024 * 1024,
  cpuMillicores: 1000,
  pids: 128,
  diskBytes: 256 * 1024 * 1024,
  diskInodes: 65_536,
};

const ECHO_SERVER = `
import socket, sys, threading
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
def serve(peer):
    while data := peer.recv(65536): peer.sendall(data)
    peer.shutdown(socket.SHUT_WR)
while True: threading.Thread(target=serve, args=(server.accept()[0],)).start()
`;

describe.each(["crun", "runc"] as const)("with %s", (runtime) => {
  backendSuite(`oci (${runtime})`, async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
    const { backend } = await composeEmbedded({ dataDir, runtime });
    return {
      backend,
      image: "host",
      reopen: async () => (await composeEmbedded({ dataDir, runtime })).backend,
      close: () => rm(dataDir, { recursive: true, force: true }),
    };
  });

  channelSuite(`oci (${runtime})`, async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
    const { backend } = await composeEmbedded({ dataDir, runtime });
    const id = "sbx_channelsuite";
    try {
      await backend.create({ id, image: "host", limits: LIMITS, profile: "restricted", env: {} });
    } catch (error) {
      await rm(dataDir, { recursive: true, force: true });
      throw error;
    }
    return {
      channel: await backend.open(id),
      reopen: () => backend.open(id),
      echoServer: (port) => ({
        kind: "process",
        argv: ["/usr/bin/python3", "-c", ECHO_SERVER, String(port)],
      }),
      close: async () => {
        await backend.destroy(id);
        await rm(dataDir, { recursive: true, force: true });
      },
    };
  });
});

test("a workspace larger than the sandbox's own disk has its own limit", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  const { backend } = await composeEmbedded({ dataDir });
  const id = "sbx_largeworkspace";
  try {
    await backend.create({
      id,
      image: "host",
      limits: LIMITS,
      profile: "restricted",
      env: {},
      workspace: { id: "wsp_large", diskBytes: 2 * LIMITS.diskBytes, diskInodes: 1_024 },
    });
    const { tier, facts } = await backend.isolation(id);
    expect(tier).toBe("standard");
    const fact = facts.find(({ name }) => name === "disk_quota");
    expect(fact).toMatchObject({ enforced: true });
    const bytes = Number(/(\d+) bytes/u.exec(fact?.measured ?? "")?.[1]);
    expect(bytes).toBeGreaterThan(LIMITS.diskBytes);
    expect(bytes).toBeLessThanOrEqual(2 * LIMITS.diskBytes);
  } finally {
    await backend.destroy(id);
    await rm(dataDir, { recursive: true, force: true });
  }
});

test("reports the size of disk templates", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  const { backend } = await composeEmbedded({ dataDir });
  const id = "sbx_template";
  try {
    expect(await backend.storage()).toEqual([{ kind: "disk_templates", files: 0, bytes: 0 }]);
    await backend.create({ id, image: "host", limits: LIMITS, profile: "restricted", env: {} });
    const [use] = await backend.storage();
    expect(use?.files).toBe(1);
    expect(use?.bytes).toBeGreaterThan(0);
  } finally {
    await backend.destroy(id);
    await rm(dataDir, { recursive: true, force: true });
  }
});

test("a runtime without the known fixes makes the isolation weak, and the report says why", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  const id = "sbx_runtimes";
  try {
    for (const { kind, current } of await findRuntimes()) {
      if (kind === "runsc") continue;
      const { backend } = await composeEmbedded({ dataDir, runtime: kind });
      await backend.create({ id, image: "host", limits: LIMITS, profile: "restricted", env: {} });
      const { tier, facts } = await backend.isolation(id);
      const missing = facts.filter(({ enforced }) => !enforced).map(({ name }) => name);
      expect({ kind, tier, missing }).toEqual({
        kind,
        tier: current ? "standard" : "weak",
        missing: ["own_kernel", ...(current ? [] : ["runtime_current"])],
      });
      await backend.destroy(id);
    }
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});

test("chooses the best runtime, or the requested one", async () => {
  const found = await findRuntimes();
  expect(pickRuntime(found)).toEqual(found[0]);
  expect(found[0]?.kind).not.toBe("runsc");
  expect(pickRuntime(found, "runc")).toMatchObject({ kind: "runc" });
  // Outdated runtimes come last.
  const ordinary = found.filter(({ kind }) => kind !== "runsc").map(({ current }) => current);
  expect(ordinary).toEqual(ordinary.toSorted((a, b) => Number(b) - Number(a)));
});

test("an old or missing gVisor is not a failure if the machine uses another runtime", () => {
  const crun = { kind: "crun", path: "/usr/bin/crun", version: "1.20", current: true } as const;
  const old = {
    kind: "runsc",
    path: "/usr/bin/runsc",
    version: "20220101",
    current: false,
  } as const;
  const runsc = (found: Parameters<typeof runtimeChecks>[0], inUse: "crun" | "runsc" = "crun") =>
    runtimeChecks(found, inUse).find(({ name }) => name === "runtime_runsc");
  expect(runsc([crun])).toMatchObject({
    ok: true,
    detail: expect.stringMatching(/not installed/u),
  });
  expect(runsc([crun, old])).toMatchObject({
    ok: true,
    detail: expect.stringMatching(/20220101, not used: .* needs \d+ or later/u),
  });
  expect(runsc([crun, { ...old, current: true }])).toMatchObject({
    detail: "20220101, for sessions with strong isolation",
  });
  expect(runsc([crun, old], "runsc")).toMatchObject({ ok: false, remedy: expect.any(String) });
});
