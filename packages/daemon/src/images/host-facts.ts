/** Looks at the few things of this machine that the `host` image depends on. */
import { createHash } from "node:crypto";
import { lstatSync, readFileSync, readlinkSync } from "node:fs";
import { lstat, readFile, readdir, readlink } from "node:fs/promises";
import { join, normalize } from "node:path";
import { systemCode } from "./image-failure.ts";

/** Raised whenever the recipe in host-image.ts changes, so that roots made by an older one are not used. */
const RECIPE_VERSION = 3;
/**
 * The root is made anew after each start of the machine: it takes a tenth of a second, and what
 * a power cut may have left half-written is never used.
 */
const BOOT_ID = "/proc/sys/kernel/random/boot_id";
const SYSTEM_DIRECTORIES = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/** What the root is made from, besides names. */
const STAMPED = [
  "usr/lib/os-release",
  "etc/ld.so.cache",
  "etc/alternatives",
  "etc/ssl/certs",
  "etc/ssl/certs/ca-certificates.crt",
];

export interface HostFacts {
  readonly fingerprint: string;
  /** Top-level links into /usr, by name, as on a machine with merged directories. */
  readonly links: ReadonlyMap<string, string>;
  /** Top-level directories that are no links, as on an older machine. */
  readonly directories: readonly string[];
  readonly shell: string;
  readonly timezoneTarget: string | undefined;
}

/**
 * `machine` is "/" except in tests.
 *
 * Looks at names that the kernel has at hand, and waits for each: all of them together take less time
 * than one would take to come back from another thread, and every new sandbox asks.
 */
export function readHostFacts(machine: string): HostFacts {
  const links = new Map<string, string>();
  const directories: string[] = [];
  for (const name of SYSTEM_DIRECTORIES) {
    const target = linkTarget(join(machine, name));
    if (target !== undefined) {
      if (leadsIntoUsr(target, "/")) links.set(name, target);
    } else if (isDirectory(join(machine, name))) {
      directories.push(name);
    }
  }
  const hasBash =
    stamp(join(machine, "usr/bin/bash")) !== "" || stamp(join(machine, "bin/bash")) !== "";
  const timezone = linkTarget(join(machine, "etc/localtime"));
  const facts = {
    links,
    directories,
    shell: hasBash ? "/bin/bash" : "/bin/sh",
    timezoneTarget: timezone !== undefined && leadsIntoUsr(timezone, "/etc") ? timezone : undefined,
  };
  const stamps = STAMPED.map((path) => stamp(join(machine, path)));
  const bootId = readFileSync(BOOT_ID, "utf8");
  const recipe = [
    RECIPE_VERSION,
    bootId,
    machine,
    [...links],
    directories,
    facts.shell,
    facts.timezoneTarget ?? "",
    stamps,
  ];
  return {
    ...facts,
    fingerprint: `sha256:${createHash("sha256").update(JSON.stringify(recipe)).digest("hex")}`,
  };
}

/**
 * The links in a directory of this machine that lead, directly or through a sibling, into /usr.
 *
 * SECURITY: only names and targets are taken over, and only targets that the sandbox sees
 * anyway; a link to /etc, /var or a home is left out. Guarded by host-image.test.ts.
 */
export async function linksIntoUsr(
  machine: string,
  directory: string,
): Promise<Map<string, string>> {
  const all = new Map<string, string>();
  for (const name of await namesIn(join(machine, directory))) {
    const target = await orMissing(readlink(join(machine, directory, name)));
    if (target !== undefined) all.set(name, target);
  }
  const kept = new Map<string, string>();
  for (const [name, target] of all) {
    const sibling = all.get(target);
    const last = target.includes("/") || sibling === undefined ? target : sibling;
    if (leadsIntoUsr(last, `/${directory}`)) kept.set(name, target);
  }
  return kept;
}

function leadsIntoUsr(target: string, from: string): boolean {
  const absolute = normalize(target.startsWith("/") ? target : `${from}/${target}`);
  return absolute.startsWith("/usr/");
}

/** Changes when the file does; "" when there is none. */
function stamp(path: string): string {
  const stats = orMissingSync(() => lstatSync(path, { bigint: true }));
  return stats === undefined ? "" : `${stats.size}:${stats.mtimeNs}:${stats.ino}`;
}

function isDirectory(path: string): boolean {
  return orMissingSync(() => lstatSync(path))?.isDirectory() ?? false;
}

function linkTarget(path: string): string | undefined {
  return orMissingSync(() => readlinkSync(path));
}

async function namesIn(path: string): Promise<string[]> {
  return (await orMissing(readdir(path))) ?? [];
}

/** The content of a regular file of this machine, not through a link; undefined when it is none. */
export async function regularFileContent(path: string): Promise<Buffer | undefined> {
  const stats = await orMissing(lstat(path));
  return stats?.isFile() === true ? await orMissing(readFile(path)) : undefined;
}

async function orMissing<T>(looked: Promise<T>): Promise<T | undefined> {
  try {
    return await looked;
  } catch (error) {
    return unlessMissing(error);
  }
}

function orMissingSync<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch (error) {
    return unlessMissing(error);
  }
}

/** ENOENT: not there. ENOTDIR: a parent is a file. EINVAL: readlink on something else. */
function unlessMissing(error: unknown): undefined {
  if (["ENOENT", "ENOTDIR", "EINVAL"].includes(systemCode(error) ?? "")) return undefined;
  throw error;
}
