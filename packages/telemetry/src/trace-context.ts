/** The W3C headers `traceparent` and `tracestate`, validated before use. */

/** A position in a trace, as sent over HTTP and passed to commands. */
export interface TraceContext {
  /** Of version 00: `00-<trace id>-<span id>-<flags>`. */
  readonly traceparent: string;
  readonly tracestate?: string;
  /** The parts of `traceparent`, if they are already known. */
  readonly ids?: TraceIds;
}

export interface TraceIds {
  readonly traceId: string;
  readonly spanId: string;
  readonly flags: number;
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}/;
const LENGTH = 55;
/** The minimum length that the specification requires to be passed on. */
const MAX_STATE_LENGTH = 512;
const TRACESTATE = /^[\x20-\x7e]+$/;

/**
 * Undefined for an invalid context, so a bad header starts a new trace.
 *
 * SECURITY: the header becomes an environment variable and part of a log line, so only hexadecimal
 * digits pass. Guarded by trace-context.test.ts.
 */
export function parseTraceContext(
  traceparent: unknown,
  tracestate?: unknown,
): TraceContext | undefined {
  if (typeof traceparent !== "string" || traceparent.length > 1024) return undefined;
  const text = traceparent.trim();
  if (!TRACEPARENT.test(text)) return undefined;
  const isVersion0 = text.startsWith("00");
  // Later versions may append fields, which are unknown here and not passed on.
  if (isVersion0 ? text.length !== LENGTH : text.length > LENGTH && text[LENGTH] !== "-")
    return undefined;
  const state = typeof tracestate === "string" ? tracestate.trim() : "";
  const isPassable = state.length <= MAX_STATE_LENGTH && TRACESTATE.test(state);
  return {
    traceparent: `00${text.slice(2, LENGTH)}`,
    ...(isPassable && { tracestate: state }),
  };
}

/** The parts of a context that was parsed. */
export function idsOf({ traceparent, ids }: TraceContext): TraceIds {
  return (
    ids ?? {
      traceId: traceparent.slice(3, 35),
      spanId: traceparent.slice(36, 52),
      flags: Number.parseInt(traceparent.slice(53), 16),
    }
  );
}

export function traceparentOf({ traceId, spanId, flags }: TraceIds): string {
  return `00-${traceId}-${spanId}-${flags.toString(16).padStart(2, "0")}`;
}
