/** A request for a port that was let in. */
import type { PortVisitor } from "../../sessions/services.ts";
import type { PreviewLink } from "./preview-token.ts";
import type { PortAddress } from "./preview-address.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** What a request for a port is for; set before any handler runs, on routes of previews only. */
    preview: Preview | undefined;
  }
}

/** Who asks, and what the request is for. */
export interface Preview extends PortAddress {
  readonly by: "host" | "path";
  readonly visitor: PortVisitor;
  /** What the visitor has in place of a key. */
  readonly link?: PreviewLink;
  /** What the application is asked for. */
  readonly target: string;
  /** The path that the application's root has here, with a token that the visitor has in it; empty by host. */
  readonly prefix: string;
  /** The same for the application's eyes. */
  readonly publicPrefix: string;
}
