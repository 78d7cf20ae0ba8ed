/** The interface of running telemetry, without library types. */
import type { MetricFamily } from "./metric-families.ts";
import type { TraceContext } from "./trace-context.ts";

export interface StartOptions {
  readonly version: string;
  /** The metrics to send each time; none when absent. */
  readonly families?: () => Promise<readonly MetricFamily[]>;
  /** Whether libraries in this process find the tracer, and spans nest, automatically. */
  readonly isGlobal: boolean;
  /** Spans whose instrumentation scope this refuses are not sent. */
  readonly keepsScope?: (name: string) => boolean;
  /** Called with what could not be sent. */
  readonly onFailure: (message: string) => void;
}

export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

export interface SpanStart {
  readonly attributes?: SpanAttributes;
  /** Starts a new trace when absent. */
  readonly parent?: TraceContext | undefined;
  /** Now when absent. */
  readonly startedAtMs?: number | undefined;
  /** Whether it handles a request of another process. */
  readonly isServer?: boolean;
}

/** A span that has not ended. */
export interface OpenSpan {
  /** The parent of nested spans. */
  readonly context: TraceContext;
  /** Attributes that are only known now, and an error, if any. */
  end(outcome?: {
    readonly attributes?: SpanAttributes;
    readonly error?: string | undefined;
  }): void;
}

export interface StartedTelemetry {
  startSpan(name: string, start: SpanStart): OpenSpan;
  /** Sends everything collected so far; rejects if that fails. */
  flush(): Promise<void>;
  /** Sends the rest, for at most a few seconds, and stops. Never rejects. */
  stop(): Promise<void>;
}
