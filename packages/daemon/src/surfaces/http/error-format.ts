/** How a protocol reports errors to its clients. */

export interface ErrorResponse {
  readonly status: number;
  /** In the protocol's format. */
  readonly body: object;
  readonly code: string;
  readonly message: string;
  /** The same request may succeed later, unchanged. */
  readonly retryable: boolean;
  /** The client does not learn the cause, so it must be logged. */
  readonly hidden: boolean;
}

export interface ErrorFormat {
  /** What a client may learn about an error. */
  of(error: unknown, requestId: string): ErrorResponse;
}
