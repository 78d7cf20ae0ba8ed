/** Looks at the few things of this machine that the `host` image depends on. */
import { createHash } from "node:crypto";
import { lstat, readFile, readdir, readlink } from "node:fs/promises";
import { join, normalize } from "node:path";
import { systemCode } from "./image-failure.ts";

/** Raised whenever the recipe in host-image.ts changes, so that roots made by an older one are not used. */
const RECIPE_VERSION = 2;
/**
 * The root is made anew after each start of the machine: it takes a tenth of a second, and what
 * a power cut may have left half-written is never used.
 */
const BOOT_ID = "/proc/sys/kernel/random/boot_id";
const SYSTEM_DIRECTORIES = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

export interface HostFacts {
  readonly fingerprint: string;
  /** Top-level links into /usr, by name, as on a machine with merged directories. */
  readonly links: ReadonlyMap<string, string>;
  /** Top-level directories that are no links, as on an older machine. */
  readonly directories: readonly string[];
  readonly shell: string;
  readonly timezoneTarget: string | undefined;
}

/** `machine` is "/" except in tests. */
export async function readHostFacts(machine: string): Promise<HostFacts> {
  const links = new Map<string, string>();
  const directories: string[] = [];
  for (const name of SYSTEM_DIRECTORIES) {
    const target = await linkTarget(join(machine, name));
    if (target !== undefined) {
      if (leadsIntoUsr(target, "/")) links.set(name, target);
    } else if (await isDirectory(join(machine, name))) {
      directories.push(name);
    }
  }
  const hasBash =
    (await stamp(join(machine, "usr/bin/bash"))) !== "" ||
    (await stamp(join(machine, "bin/bash"))) !== "";
  const timezone = await linkTarget(join(machine, "etc/localtime"));
  const facts = {
    links,
    directories,
    shell: hasBash ? "/bin/bash" : "/bin/sh",
    timezoneTarget: timezone !== undefined && leadsIntoUsr(timezone, "/etc") ? timezone : undefined,
  };
  const stamps = [];
  for (const path of [
    "usr/lib/os-release",
    "etc/ld.so.cache",
    "etc/alternatives",
    "etc/ssl/certs",
    "etc/ssl/certs/ca-certificates.crt",
  ]) {
    stamps.push(await stamp(join(machine, path)));
  }
  const bootId = await readFile(BOOT_ID, "utf8");
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
    const target = await linkTarget(join(machine, directory, name));
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
async function stamp(path: string): Promise<string> {
  const stats = await orMissing(lstat(path, { bigint: true }));
  return stats === undefined ? "" : `${stats.size}:${stats.mtimeNs}:${stats.ino}`;
}

async function isDirectory(path: string): Promise<boolean> {
  return (await orMissing(lstat(path)))?.isDirectory() ?? false;
}

async function linkTarget(path: string): Promise<string | undefined> {
  return await orMissing(readlink(path));
}

async function namesIn(path: string): Promise<string[]> {
  return (await orMissing(readdir(path))) ?? [];
}

/** The content of a regular file of this machine, not through a link; undefined when it is none. */
export async function regularFileContent(path: string): Promise<Buffer | undefined> {
  const stats = await orMissing(lstat(path));
  return stats?.isFile() === true ? await orMissing(readFile(path)) : undefined;
}

/** ENOENT: not there. ENOTDIR: a parent is a file. EINVAL: readlink on something else. */
async function orMissing<T>(looked: Promise<T>): Promise<T | undefined> {
  try {
    return await looked;
  } catch (error) {
    if (["ENOENT", "ENOTDIR", "EINVAL"].includes(systemCode(error) ?? "")) return undefined;
    throw error;
  }
}
