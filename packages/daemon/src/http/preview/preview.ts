/** A request for a port that was let in. */
import type { PortVisitor } from "../../sessions/services.ts";
import type { PortAddress } from "./preview-address.ts";

/** Who asks, and what the request is for. */
export interface Preview extends PortAddress {
  readonly by: "host" | "path";
  readonly visitor: PortVisitor;
  /** When the link ends. */
  readonly expiresAtMs?: number;
  /** What the application is asked for. */
  readonly target: string;
  /** The path that the application's root has here, with a token that the visitor has in it; empty by host. */
  readonly prefix: string;
  /** The same for the application's eyes. */
  readonly publicPrefix: string;
}
