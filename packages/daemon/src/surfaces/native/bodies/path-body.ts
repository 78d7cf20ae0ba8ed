/** Converts paths between the core's terms and the API's. */
import { isUtf8 } from "node:buffer";
import { posix } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import type { NamedPath } from "@sandkasten/protocol";
import type { SandboxPath } from "../../../ports/channel.ts";

export const WORKSPACE = "/workspace";
const SLASH = 0x2f;

/** The path in a request, as text or as base64. */
export function pathOf(
  given: { readonly path?: string | undefined; readonly raw_path?: string | undefined },
  fallback?: string,
): SandboxPath {
  return onePath(["path", given.path ?? fallback], ["raw_path", given.raw_path], given.path);
}

export function pathsOf(given: {
  readonly from?: string | undefined;
  readonly raw_from?: string | undefined;
  readonly to?: string | undefined;
  readonly raw_to?: string | undefined;
}): { readonly from: SandboxPath; readonly to: SandboxPath } {
  return {
    from: onePath(["from", given.from], ["raw_from", given.raw_from], given.from),
    to: onePath(["to", given.to], ["raw_to", given.raw_to], given.to),
  };
}

type Field = readonly [name: string, value: string | undefined];

function onePath(
  [name, text]: Field,
  [rawName, raw]: Field,
  given: string | undefined,
): SandboxPath {
  if (raw !== undefined) {
    if (given === undefined) return decoded(raw, rawName);
    throw new SandboxError("INVALID_REQUEST", `give either \`${name}\` or \`${rawName}\``);
  }
  if (text === undefined) throw new SandboxError("INVALID_REQUEST", `\`${name}\` is missing`);
  return text;
}

function decoded(raw: string, name: string): Uint8Array {
  const bytes = Buffer.from(raw, "base64");
  if (bytes.byteLength === 0 || bytes.includes(0))
    throw new SandboxError(
      "INVALID_REQUEST",
      `\`${name}\` must be the base64 of a path without NUL bytes`,
    );
  return bytes;
}

/** A path in the API's format. */
export function pathBody({ path, rawPath }: NamedPath): { path: string; raw_path?: string } {
  return { path, ...(rawPath !== undefined && { raw_path: rawPath }) };
}

/** A requested path made absolute: relative paths start at the workspace. */
export function askedPath(path: SandboxPath): { path: string; raw_path?: string } {
  const bytes = Buffer.from(path);
  const absolute =
    bytes[0] === SLASH ? bytes : Buffer.concat([Buffer.from(`${WORKSPACE}/`), bytes]);
  return pathBody({
    path: absolute.toString(),
    ...(!isUtf8(absolute) && { rawPath: absolute.toString("base64") }),
  });
}

/** The path of a name in a directory, whose path may end in slashes. */
export function joined(directory: SandboxPath, name: string): SandboxPath {
  if (typeof directory === "string") return `${directory.replace(/\/+$/, "")}/${name}`;
  const end = directory.findLastIndex((byte) => byte !== SLASH) + 1;
  return Buffer.concat([directory.subarray(0, end), Buffer.from(`/${name}`)]);
}

/** Resolves a path lexically; each byte becomes one character. */
export function resolvedText(path: SandboxPath): string {
  return posix.resolve(WORKSPACE, Buffer.from(path).toString("latin1"));
}

/** For display only: invalid UTF-8 is replaced. */
export function shownPath(path: SandboxPath): string {
  return Buffer.from(path).toString();
}
