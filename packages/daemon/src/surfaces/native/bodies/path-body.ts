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
    if (given === undefined) return plain(decoded(raw, rawName));
    throw new SandboxError("INVALID_REQUEST", `give either \`${name}\` or \`${rawName}\``);
  }
  if (text === undefined) throw new SandboxError("INVALID_REQUEST", `\`${name}\` is missing`);
  return plain(Buffer.from(text)).toString();
}

function decoded(raw: string, name: string): Buffer {
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

/** The path of a name in a directory, whose path may end in a slash. */
export function joined(directory: SandboxPath, name: string): SandboxPath {
  const path = plain(Buffer.concat([Buffer.from(directory), Buffer.from(`/${name}`)]));
  return typeof directory === "string" ? path.toString() : path;
}

/**
 * Without empty parts and `.`, so that responses have the usual path. What only a directory can
 * have stays: a slash at the end, and `..`, which leads elsewhere after a link.
 */
function plain(path: Buffer): Buffer {
  const text = path.toString("latin1");
  const parts = text.split("/").filter((part) => part !== "" && part !== ".");
  const start = text.startsWith("/") ? "/" : "";
  const end = /\/\.?$/.test(text) && parts.length > 0 ? "/" : "";
  return Buffer.from(start + parts.join("/") + end || WORKSPACE, "latin1");
}

/** Resolves a path lexically; each byte becomes one character. */
export function resolvedText(path: SandboxPath): string {
  return posix.resolve(WORKSPACE, Buffer.from(path).toString("latin1"));
}

/** For display only: invalid UTF-8 is replaced. */
export function shownPath(path: SandboxPath): string {
  return Buffer.from(path).toString();
}
