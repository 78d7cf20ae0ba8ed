/** Makes a browser save a response, and suggests a name. */
import type { SandboxPath } from "../../../../ports/channel.ts";
import { shownPath } from "../../bodies/path-body.ts";

/**
 * SECURITY: a sandbox's file is untrusted; shown as a page it could act in our origin. It is always
 * an attachment, and a name can neither end the header nor begin another (threat: header
 * injection). Guarded by file-content.test.ts.
 */
export function attachment(asked: SandboxPath, extension = ""): string {
  const path = shownPath(asked);
  const name = `${path.slice(path.lastIndexOf("/") + 1) || "download"}${extension}`.toWellFormed();
  const plain = name.replaceAll(/[^A-Za-z0-9._-]/g, "_").slice(0, 200);
  const encoded = encodeURIComponent(name.slice(0, 200).toWellFormed()).replaceAll(
    /['()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}
