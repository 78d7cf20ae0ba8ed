/** Why a connection to a runner ended. */

/**
 * `refused`: nothing answers at the other end. `lost`: the connection was cut. `unresponsive`: the
 * runner missed a deadline. `protocol`: the runner broke the protocol. `closed`: we closed it.
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
