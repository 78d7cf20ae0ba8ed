/** Why a connection to a runner is no more. */

/**
 * `refused`: nothing answers at the other end. `lost`: it was cut. `unresponsive`: the runner missed
 * a deadline. `protocol`: the runner broke the protocol. `closed`: we let go of it ourselves.
 */
export type ConnectionFailureKind = "refused" | "lost" | "unresponsive" | "protocol" | "closed";

export class ConnectionFailure extends Error {
  override readonly name = "ConnectionFailure";
  readonly kind: ConnectionFailureKind;

  constructor(kind: ConnectionFailureKind, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = kind;
  }
}
