/** Reads the few properties of this machine that the `host` image depends on. */
import { createHash } from "node:crypto";
import { lstatSync, readFileSync, readlinkSync } from "node:fs";
import type { Stats } from "node:fs";
import { lstat, readFile, readdir, readlink } from "node:fs/promises";
import { join, normalize } from "node:path";
import { systemCode } from "../system-errors.ts";

/** Incremented whenever the recipe in host-image.ts changes, so roots of an older recipe are not used. */
const RECIPE_VERSION = 3;
/**
 * The root is rebuilt after each boot: it takes a tenth of a second, and avoids using files that a
 * power failure left incomplete.
 */
const BOOT_ID = "/proc/sys/kernel/random/boot_id";
const SYSTEM_DIRECTORIES = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/** The files that the root is made from, besides names. */
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
  /** Top-level directories that are not links, as on an older machine. */
  readonly directories: readonly string[];
  readonly shell: string;
  readonly timezoneTarget: string | undefined;
}

/**
 * `machine` is "/" except in tests.
 *
 * Synchronous, because every new sandbox needs it: the kernel has these names cached, and all of them
 * together take less time than one round trip to the thread pool.
 */
export function readHostFacts(machine: string): HostFacts {
  const links = new Map<string, string>();
  const directories: string[] = [];
  for (const name of SYSTEM_DIRECTORIES) {
    const stats = statsOf(join(machine, name));
    if (stats?.isSymbolicLink() === true) {
      const target = linkTarget(join(machine, name));
      if (target !== undefined && leadsIntoUsr(target, "/")) links.set(name, target);
    } else if (stats?.isDirectory() === true) {
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
 * SECURITY: only names and targets are copied, and only targets that the sandbox sees anyway; a
 * link to /etc, /var or a home directory is left out. Guarded by host-image.test.ts.
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

/** Changes when the file does; "" if there is none. */
function stamp(path: string): string {
  const stats = orMissingSync(() => lstatSync(path, { bigint: true, throwIfNoEntry: false }));
  return stats === undefined ? "" : `${stats.size}:${stats.mtimeNs}:${stats.ino}`;
}

/** Without an error for a missing name, which would take longer than the look. */
function statsOf(path: string): Stats | undefined {
  return orMissingSync(() => lstatSync(path, { throwIfNoEntry: false }));
}

function linkTarget(path: string): string | undefined {
  return orMissingSync(() => readlinkSync(path));
}

async function namesIn(path: string): Promise<string[]> {
  return (await orMissing(readdir(path))) ?? [];
}

/** The content of a regular file of this machine, without following links; undefined if there is none. */
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

/** ENOENT: missing. ENOTDIR: a parent is a file. EINVAL: readlink on something that is not a link. */
function unlessMissing(error: unknown): undefined {
  if (["ENOENT", "ENOTDIR", "EINVAL"].includes(systemCode(error) ?? "")) return undefined;
  throw error;
}
