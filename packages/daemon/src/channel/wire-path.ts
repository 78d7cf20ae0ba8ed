/** Encodes paths for the runner. */
import type { WirePath } from "@sandkasten/protocol";
import type { SandboxPath } from "../ports/channel.ts";

export function wirePath(path: SandboxPath): WirePath {
  return typeof path === "string" ? path : { raw: Buffer.from(path).toString("base64") };
}
