/** The error for invalid frames; the code that catches it closes the connection. */

/** Why a peer's bytes were refused. The first six match `fixtures/frames.json`. */
type ProtocolErrorReason =
  | "unknown_type"
  | "payload_too_large"
  | "json_not_object"
  | "output_too_short"
  | "credit_not_4_bytes"
  | "not_empty"
  | "bad_output_head"
  | "bad_hello"
  | "bad_message"
  | "unexpected_frame"
  | "unknown_stream"
  | "credit_exceeded"
  | "credit_overflow"
  | "offset_backwards";

export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
  readonly reason: ProtocolErrorReason;

  constructor(reason: ProtocolErrorReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}
