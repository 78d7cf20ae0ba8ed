/** The position of one of our spans in its trace, for headers and for OpenTelemetry. */
import type { SpanContext } from "@opentelemetry/api";
import { TraceState } from "@opentelemetry/core";
import { idsOf, traceparentOf } from "./trace-context.ts";
import type { TraceContext, TraceIds } from "./trace-context.ts";

export class SpanTrace implements TraceContext, SpanContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
  readonly isRemote: boolean;
  readonly tracestate?: string;
  readonly traceState?: TraceState;

  constructor(
    { traceId, spanId, flags }: TraceIds,
    tracestate: string | undefined,
    isRemote: boolean,
  ) {
    this.traceId = traceId;
    this.spanId = spanId;
    this.traceFlags = flags;
    this.isRemote = isRemote;
    if (tracestate === undefined) return;
    this.tracestate = tracestate;
    this.traceState = new TraceState(tracestate);
  }

  /** The parent that a caller named, if it is one of ours in this process. */
  static of(parent: TraceContext): SpanTrace {
    return parent instanceof SpanTrace
      ? parent
      : new SpanTrace(idsOf(parent), parent.tracestate, true);
  }

  get ids(): TraceIds {
    return { traceId: this.traceId, spanId: this.spanId, flags: this.traceFlags };
  }

  get traceparent(): string {
    return traceparentOf(this.ids);
  }
}
