/** What can be asked of telemetry that was started, in terms of no library. */
import type { MetricFamily } from "./metric-families.ts";
import type { TraceContext } from "./trace-context.ts";

export interface StartOptions {
  readonly version: string;
  /** What is sent as metrics each time; none when absent. */
  readonly families?: () => Promise<readonly MetricFamily[]>;
  /** Whether libraries in this process find the tracer by themselves, and spans nest by themselves. */
  readonly isGlobal: boolean;
  /** Spans whose instrumentation scope this refuses are not sent. */
  readonly keepsScope?: (name: string) => boolean;
  /** Told of what could not be sent. */
  readonly onFailure: (message: string) => void;
}

export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

export interface SpanStart {
  readonly attributes?: SpanAttributes;
  /** A new trace begins when absent. */
  readonly parent?: TraceContext | undefined;
  /** Now when absent. */
  readonly startedAtMs?: number | undefined;
  /** Whether it is the answer to a request of another process. */
  readonly isServer?: boolean;
}

/** Something that takes time and has not ended. */
export interface OpenSpan {
  /** The parent of what happens within. */
  readonly context: TraceContext;
  /** Attributes that are only known now, and what went wrong, if anything. */
  end(outcome?: {
    readonly attributes?: SpanAttributes;
    readonly error?: string | undefined;
  }): void;
}

export interface StartedTelemetry {
  startSpan(name: string, start: SpanStart): OpenSpan;
  /** Sends what has come together; rejects when that fails. */
  flush(): Promise<void>;
  /** Sends the rest, for a few seconds at most, and stops. Never rejects. */
  stop(): Promise<void>;
}
