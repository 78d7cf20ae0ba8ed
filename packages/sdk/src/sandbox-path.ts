/** Paths of files, which need not be text. */
import { encodeBase64 } from "./base64.ts";
import { type WithSnakeNames, withSnakeNames } from "./snake-names.ts";

interface NamedPathFields {
  readonly path: string;
  /** base64 of a path that is not UTF-8; absent if `path` is exact. */
  readonly rawPath?: string | undefined;
}

/** A path as the daemon returns it. */
export type NamedPath = WithSnakeNames<NamedPathFields>;

/**
 * A path in a sandbox: text, its bytes, or an object with one, such as an entry of a list. Only
 * bytes and entries can name files whose names are not UTF-8.
 */
export type SandboxPath = string | Uint8Array | NamedPathFields;

export function toNamedPath(body: {
  readonly path: string;
  readonly raw_path?: string | undefined;
}): NamedPath {
  const { path, raw_path: rawPath } = body;
  return withSnakeNames({ path, ...(rawPath === undefined ? {} : { rawPath }) });
}

/** The two fields of a request for a path, only one of which is set. */
export function pathFields(path: SandboxPath | undefined): {
  readonly path?: string;
  readonly raw_path?: string;
} {
  const { text, raw } = parts(path);
  return {
    ...(text === undefined ? {} : { path: text }),
    ...(raw === undefined ? {} : { raw_path: raw }),
  };
}

/** The fields of a request from one path to another. */
export function fromAndTo(
  from: SandboxPath,
  to: SandboxPath,
): Readonly<Record<string, string | undefined>> {
  const [source, target] = [parts(from), parts(to)];
  return { from: source.text, raw_from: source.raw, to: target.text, raw_to: target.raw };
}

/** For messages. */
export function shownPath(path: SandboxPath): string {
  if (typeof path === "string") return path;
  return path instanceof Uint8Array ? new TextDecoder().decode(path) : path.path;
}

function parts(path: SandboxPath | undefined): { readonly text?: string; readonly raw?: string } {
  if (path === undefined) return {};
  if (typeof path === "string") return { text: path };
  if (path instanceof Uint8Array) return { raw: encodeBase64(path) };
  return path.rawPath === undefined ? { text: path.path } : { raw: path.rawPath };
}
