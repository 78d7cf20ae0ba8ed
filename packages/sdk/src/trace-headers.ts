/** The current trace, if the program uses OpenTelemetry. Needs no dependency on it. */

/** The part of OpenTelemetry's global API that is needed here. */
interface OpenTelemetryApi {
  readonly context?: { active(): unknown };
  readonly propagation?: {
    inject(
      context: unknown,
      carrier: Headers,
      setter: { set(carrier: Headers, name: string, value: string): void },
    ): void;
  };
}

const API = Symbol.for("opentelemetry.js.api.1");
/** `baggage` is not sent: it can contain anything, and the daemon does not need it. */
const SENT: ReadonlySet<string> = new Set(["traceparent", "tracestate"]);

const setter = {
  set(carrier: Headers, name: string, value: string): void {
    if (SENT.has(name.toLowerCase())) carrier.set(name, value);
  },
};

/** Adds `traceparent` and `tracestate` of the active span, if there is one. */
export function addTraceHeaders(headers: Headers): void {
  const api = (globalThis as Record<symbol, unknown>)[API] as OpenTelemetryApi | undefined;
  if (api?.context === undefined || api.propagation === undefined) return;
  api.propagation.inject(api.context.active(), headers, setter);
}
