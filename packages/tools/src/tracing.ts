/**
 * Spans of tools and their work, for programs that use OpenTelemetry. In other programs they cost
 * next to nothing.
 */
import { context, type Span, SpanStatusCode, trace } from "@opentelemetry/api";

type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** Replaces the exit code that a failed call does not have. */
export const NO_EXIT_CODE = -1;
const SCOPE = "@sandkasten/tools";

/** Runs a function in a new span below the active one. A failure is recorded by its name only. */
export async function inSpan<Result>(
  name: string,
  attributes: Attributes,
  work: (span: Span) => Promise<Result>,
): Promise<Result> {
  // Looked up on use, so that OpenTelemetry can be started after the tools were loaded.
  const span = trace.getTracer(SCOPE).startSpan(name, { attributes });
  try {
    return await context.with(trace.setSpan(context.active(), span), () => work(span));
  } catch (error) {
    markFailed(span, failureName(error));
    throw error;
  } finally {
    span.end();
  }
}

export function markFailed(span: Span, reason: string): void {
  span.setAttribute("error", true);
  span.setStatus({ code: SpanStatusCode.ERROR, message: reason });
}

/** Adds attributes to the active span, if there is one. */
export function describeSpan(attributes: Attributes): void {
  trace.getActiveSpan()?.setAttributes(attributes);
}

/** The ids of the active span, for log lines. */
export function activeTraceIds(): { readonly trace_id?: string; readonly span_id?: string } {
  const active = trace.getActiveSpan()?.spanContext();
  return active === undefined ? {} : { trace_id: active.traceId, span_id: active.spanId };
}

/**
 * SECURITY: messages can quote input, output and paths, and stay out of spans. Guarded by
 * agent-telemetry.serial.test.ts.
 */
export function failureName(error: unknown): string {
  if (error instanceof Error && "code" in error && typeof error.code === "string")
    return error.code;
  return error instanceof Error ? error.name : "Error";
}
