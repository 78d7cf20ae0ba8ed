/** Resource names of files: `sandbox://<sandbox id>/<path>`. */

export interface FileUri {
  readonly sandboxId: string;
  /** Absolute, inside the sandbox. */
  readonly path: string;
}

export const FILE_URI_TEMPLATE = "sandbox://{sandbox_id}/{+path}";

const FORM = /^sandbox:\/\/(?<id>[A-Za-z0-9_-]{1,128})\/(?<path>.{1,8192})$/s;

/**
 * Undefined for any other name.
 *
 * SECURITY: the id is one of the session's own sandboxes or is refused by its scope, and the path is
 * resolved inside the sandbox, so `..` cannot leave it. Guarded by mcp-attack.serial.test.ts.
 */
export function parseFileUri(uri: string): FileUri | undefined {
  const { id, path } = FORM.exec(uri)?.groups ?? {};
  if (id === undefined || path === undefined) return undefined;
  const decoded = decodedPath(path);
  if (decoded === undefined || decoded.includes("\0")) return undefined;
  return { sandboxId: id, path: `/${decoded}` };
}

export function fileUri(sandboxId: string, path: string): string {
  const encoded = path.split("/").map((part) => encodeURIComponent(part));
  return `sandbox://${sandboxId}${encoded.join("/")}`;
}

function decodedPath(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}
