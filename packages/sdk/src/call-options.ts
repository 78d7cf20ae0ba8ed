/** The option that every call has. */

/** How a call is given up. */
export interface CallOptions {
  /** Ends the call with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}
