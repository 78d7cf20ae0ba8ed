/** The version of a release, and the timestamp of its files. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

export const root = join(import.meta.dirname, "../..");

export function readManifest(directory: string): Manifest {
  return JSON.parse(readFileSync(join(root, directory, "package.json"), "utf8")) as Manifest;
}

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly keywords: readonly string[];
  readonly license: string;
  readonly author: string;
  readonly repository: unknown;
  readonly engines: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

/** The root's version applies to all; versions.test.ts checks the others against it. */
export const version = readManifest(".").version;

/** Seconds since 1970: from the environment, or else the time of the last commit. */
export function sourceDateEpoch(): number {
  const given = process.env["SOURCE_DATE_EPOCH"];
  const text =
    given ?? execFileSync("git", ["log", "-1", "--format=%ct"], { cwd: root }).toString();
  if (!/^\d+\s*$/.test(text)) throw new Error(`SOURCE_DATE_EPOCH is not a number: ${text}`);
  return Number(text);
}
