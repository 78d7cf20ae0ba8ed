/** The option of every call. */

/** How to abort a call. */
export interface CallOptions {
  /** Ends the call with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}
