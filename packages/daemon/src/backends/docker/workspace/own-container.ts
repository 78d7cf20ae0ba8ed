/** Detects whether this daemon runs on a machine or in a container, and in which one. */
import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { exists } from "../../../exists.ts";

export interface OwnSurroundings {
  readonly inContainer: boolean;
  /** Possible ids of our container, most reliable first. */
  readonly candidates: readonly string[];
}

const MARKS = ["/.dockerenv", "/run/.containerenv"];
/** Files that an engine mounts into a container, from the directory named after its id. */
const OWN_FILES = /\/containers\/([0-9a-f]{64})\/[^ ]* \/etc\/(?:hostname|hosts|resolv\.conf) /gu;
const CONTAINER_CGROUP = /(?:docker|containerd|kubepods|libpod|lxc|crio)/u;
const CGROUP_ID = /[/-]([0-9a-f]{64})(?:\.scope)?$/gmu;

export async function lookAround(): Promise<OwnSurroundings> {
  const mounts = await readText("/proc/self/mountinfo");
  const cgroups = await readText("/proc/self/cgroup");
  const marked = (await Promise.all(MARKS.map(exists))).includes(true);
  return surroundingsOf({ mounts, cgroups, marked, hostname: hostname() });
}

export function surroundingsOf(seen: {
  readonly mounts: string;
  readonly cgroups: string;
  readonly marked: boolean;
  readonly hostname: string;
}): OwnSurroundings {
  const byMount = [...seen.mounts.matchAll(OWN_FILES)].map(([, id = ""]) => id);
  const inContainer = seen.marked || byMount.length > 0 || CONTAINER_CGROUP.test(seen.cgroups);
  if (!inContainer) return { inContainer, candidates: [] };
  const byCgroup = [...seen.cgroups.matchAll(CGROUP_ID)].map(([, id = ""]) => id);
  // By default, a container's host name is its shortened id.
  const byName = /^[0-9a-f]{12}$/u.test(seen.hostname) ? [seen.hostname] : [];
  return { inContainer, candidates: [...new Set([...byMount, ...byCgroup, ...byName])] };
}

async function readText(path: string): Promise<string> {
  return await readFile(path, "utf8").catch(() => "");
}
