/** Spans of agent runs. Without OpenTelemetry in the process they cost next to nothing. */
import { context, propagation, type Span, SpanStatusCode, trace } from "@opentelemetry/api";
import type { IncomingHttpHeaders } from "node:http";

type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

const SCOPE = "@sandkasten/agents";

/**
 * SECURITY: of a failure, only the code is recorded: messages can quote prompts, input and output.
 * Guarded by agent-telemetry.serial.test.ts.
 */
export async function inSpan<Result>(
  name: string,
  attributes: Attributes,
  work: (span: Span) => Promise<Result>,
): Promise<Result> {
  const span = trace.getTracer(SCOPE).startSpan(name, { attributes });
  try {
    return await context.with(trace.setSpan(context.active(), span), () => work(span));
  } catch (error) {
    const hasCode = error instanceof Error && "code" in error && typeof error.code === "string";
    span.setAttribute("error", true);
    span.setStatus({
      code: SpanStatusCode.ERROR,
      message: hasCode ? String(error.code) : "INTERNAL_ERROR",
    });
    throw error;
  } finally {
    span.end();
  }
}

/** Runs work as part of the trace that a request belongs to. */
export function inTraceOf<Result>(headers: IncomingHttpHeaders, work: () => Result): Result {
  return context.with(propagation.extract(context.active(), headers), work);
}
