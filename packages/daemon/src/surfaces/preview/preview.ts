/** An admitted request for a port. */
import type { PortVisitor } from "../../sessions/services/port-service.ts";
import type { PreviewLink } from "./preview-token.ts";
import type { PortAddress } from "./preview-address.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** The target of a request for a port; set before any handler runs, on preview routes only. */
    preview: Preview | undefined;
  }
}

/** The visitor, and the target of the request. */
export interface Preview extends PortAddress {
  readonly by: "host" | "path";
  readonly visitor: PortVisitor;
  /** The visitor's link, in place of a key. */
  readonly link?: PreviewLink;
  /** The requested target in the application. */
  readonly target: string;
  /** The path of the application's root here, including the visitor's token; empty by host. */
  readonly prefix: string;
  /** The same without secrets, for the application. */
  readonly publicPrefix: string;
}
