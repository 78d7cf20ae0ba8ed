/** How a protocol tells its clients what went wrong. */

export interface ErrorResponse {
  readonly status: number;
  /** As the protocol writes it. */
  readonly body: object;
  readonly code: string;
  readonly message: string;
  /** The same request may succeed later, unchanged. */
  readonly retryable: boolean;
  /** The client does not learn the cause, so the log must have it. */
  readonly hidden: boolean;
}

export interface ErrorFormat {
  /** What a client may know of whatever was thrown. */
  of(error: unknown, requestId: string): ErrorResponse;
}
