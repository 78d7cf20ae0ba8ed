/**
 * Lists every trace that the sandboxes of one machine under test leave on the host. Other sandboxes
 * and daemons may be running, so everything listed is identified by the machine's data directory,
 * its cgroups and its host ids.
 */
import { createHash } from "node:crypto";
import { readdir, readFile, readlink, realpath } from "node:fs/promises";
import { join } from "node:path";
import type { SandboxMachine } from "../sandbox-machine.ts";

/** Sorted lines by kind of trace. */
export type Traces = Readonly<Record<string, readonly string[]>>;

/** What belongs to the machine. */
export interface Scope {
  readonly dataDir: string;
  readonly cgroupParent: string;
  readonly idsDir: string;
}

export const IDS_DIR = "/run/sandkasten/ids";
const FIRST_HOST_ID = 1_000_000;
const HOST_IDS_PER_SLOT = 65_536;

export async function scopeOf(machine: SandboxMachine, idsDir = IDS_DIR): Promise<Scope> {
  const dataDir = await realpath(machine.dataDir);
  const instance = createHash("sha256").update(dataDir).digest("hex").slice(0, 12);
  return { dataDir, cgroupParent: `sandkasten-${instance}`, idsDir };
}

export async function tracesOf(scope: Scope): Promise<Traces> {
  const slots = await idSlots(scope);
  const processes = await processesOf(scope, slots);
  return {
    mounts: await hostMounts(scope),
    cgroups: await cgroupsBelow(scope.cgroupParent),
    processes: processes.map(({ pid, uid, command }) => `pid ${pid} uid ${uid} ${command}`),
    "network namespaces": [...new Set(processes.map(({ network }) => network))].toSorted(),
    "loop devices": await loopDevices(scope.dataDir),
    "runtime state": await names(join(scope.dataDir, "runtime")),
    "id slots": slots.map(({ name, id }) => `slot ${name} of ${id}`),
    "data directory": await dataFiles(scope.dataDir),
  };
}

async function hostMounts({ dataDir }: Scope): Promise<string[]> {
  const lines = (await readFile("/proc/self/mountinfo", "utf8")).split("\n");
  const loops = (await loopDevices(dataDir)).map((line) => line.split(" ")[0] ?? "");
  return lines
    .filter((line) => line.includes(dataDir) || loops.some((loop) => line.includes(` ${loop} `)))
    .toSorted();
}

/** The mount points of all cgroup hierarchies. */
export async function cgroupRoots(): Promise<string[]> {
  const roots = new Map<string, string>();
  for (const line of (await readFile("/proc/self/mountinfo", "utf8")).split("\n")) {
    const [, , device, , mountPoint] = line.split(" ");
    if (!/ - cgroup2? /u.test(line) || device === undefined || mountPoint === undefined) continue;
    if (!roots.has(device)) roots.set(device, mountPoint);
  }
  return [...roots.values()];
}

/** The parent itself may stay: it belongs to the data directory, not to a sandbox. */
async function cgroupsBelow(parent: string): Promise<string[]> {
  const found: string[] = [];
  const walk = async (path: string): Promise<void> => {
    for (const entry of await readdir(path, { withFileTypes: true }).catch(ignoreMissing)) {
      if (!entry.isDirectory()) continue;
      found.push(join(path, entry.name));
      await walk(join(path, entry.name));
    }
  };
  for (const root of await cgroupRoots()) await walk(join(root, parent));
  return found.toSorted();
}

interface Slot {
  readonly name: string;
  readonly id: string;
  readonly firstUid: number;
}

async function idSlots({ idsDir, dataDir }: Scope): Promise<Slot[]> {
  const slots: Slot[] = [];
  for (const name of await names(idsDir)) {
    const text = await readFile(join(idsDir, name), "utf8").catch(() => "");
    const [id, stateDir] = text.split("\n");
    if (id === undefined || stateDir?.startsWith(`${dataDir}/`) !== true) continue;
    slots.push({ name, id, firstUid: FIRST_HOST_ID + Number(name) * HOST_IDS_PER_SLOT });
  }
  return slots;
}

interface Process {
  readonly pid: string;
  readonly uid: number;
  readonly command: string;
  readonly network: string;
}

/** Processes in the machine's cgroups, ids or mounts, or with its data directory in their arguments. */
async function processesOf(scope: Scope, slots: readonly Slot[]): Promise<Process[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/u.test(name));
  const found = await Promise.all(pids.map((pid) => lookAt(pid, scope, slots)));
  return found.filter((process) => process !== undefined);
}

async function lookAt(
  pid: string,
  scope: Scope,
  slots: readonly Slot[],
): Promise<Process | undefined> {
  const file = (name: string): Promise<string> =>
    readFile(`/proc/${pid}/${name}`, "utf8").catch(() => "");
  const [status, cgroup, mounts, command] = await Promise.all(
    ["status", "cgroup", "mountinfo", "cmdline"].map(file),
  );
  // A zombie only waits for the machine's init, which we need not wait for.
  if (/^State:\s*Z/mu.test(status ?? "") && /^PPid:\s*1$/mu.test(status ?? "")) return undefined;
  const uid = Number(/^Uid:\s*(\d+)/mu.exec(status ?? "")?.[1] ?? -1);
  const inSlot = slots.some(
    ({ firstUid }) => uid >= firstUid && uid < firstUid + HOST_IDS_PER_SLOT,
  );
  const ours =
    inSlot ||
    cgroup?.includes(`/${scope.cgroupParent}/`) === true ||
    mounts?.includes(`${scope.dataDir}/`) === true ||
    (command?.includes(`${scope.dataDir}/`) === true && Number(pid) !== process.pid);
  if (!ours) return undefined;
  const network = await readlink(`/proc/${pid}/ns/net`).catch(() => "net:[gone]");
  return { pid, uid, command: (command ?? "").replaceAll("\0", " ").trim().slice(0, 80), network };
}

async function loopDevices(dataDir: string): Promise<string[]> {
  const found: string[] = [];
  for (const name of await names("/sys/block")) {
    if (!name.startsWith("loop")) continue;
    const path = `/sys/block/${name}/loop/backing_file`;
    const backing = (await readFile(path, "utf8").catch(() => "")).trim();
    if (backing.startsWith(`${dataDir}/`)) found.push(`/dev/${name} on ${backing}`);
  }
  return found;
}

/** Disk templates are kept on purpose: one for each size that was ever requested. */
async function dataFiles(dataDir: string): Promise<string[]> {
  const found: string[] = [];
  // By hand: readdir's own recursion follows links, and images contain some that lead to the host.
  const walk = async (path: string): Promise<void> => {
    for (const entry of await readdir(join(dataDir, path), { withFileTypes: true }).catch(
      ignoreMissing,
    )) {
      const at = join(path, entry.name);
      if (!/^templates\/ext4-[^/]*\.img$/u.test(at)) found.push(at);
      if (entry.isDirectory()) await walk(at);
    }
  };
  await walk("");
  return found.toSorted();
}

async function names(path: string): Promise<string[]> {
  return (await readdir(path).catch(ignoreMissing)).toSorted();
}

function ignoreMissing(error: NodeJS.ErrnoException): [] {
  if (error.code === "ENOENT" || error.code === "ENODEV") return [];
  throw error;
}
