/** Sends spans and metrics to an OpenTelemetry collector. Loads the SDK, so import it only when needed. */
import {
  context,
  diag,
  DiagLogLevel,
  propagation,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import type { Context, DiagLogger, Tracer } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { TraceState, W3CTraceContextPropagator } from "@opentelemetry/core";
import { OTLPMetricExporter as JsonMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http";
import { OTLPMetricExporter as ProtobufMetricExporter } from "@opentelemetry/exporter-metrics-otlp-proto";
import { OTLPTraceExporter as JsonTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtobufTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { defaultResource, resourceFromAttributes } from "@opentelemetry/resources";
import type { Resource } from "@opentelemetry/resources";
import { MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { ReadableSpan, Sampler, SpanProcessor } from "@opentelemetry/sdk-trace";
import { FamilyProducer } from "./family-producer.ts";
import { PooledIds } from "./pooled-ids.ts";
import type { OtlpTarget, TelemetrySettings } from "./settings-from-environment.ts";
import type { OpenSpan, SpanStart, StartedTelemetry, StartOptions } from "./started-telemetry.ts";
import { idsOf, traceparentOf } from "./trace-context.ts";
import type { TraceContext } from "./trace-context.ts";

const SCOPE = "sandkasten";
const STOP_TIMEOUT_MS = 5000;
const EXPORT_TIMEOUT_MS = 10_000;
/** Bounds the memory used while the collector is unreachable; further spans are dropped. */
const MAX_QUEUED_SPANS = 4096;
/** Longer attribute values are truncated. */
const MAX_ATTRIBUTE_LENGTH = 8192;

export class OtlpTelemetry implements StartedTelemetry {
  readonly #tracer: Tracer;
  readonly #spans: TracerProvider;
  readonly #meters: MeterProvider | undefined;
  readonly #isGlobal: boolean;

  constructor(settings: TelemetrySettings, options: StartOptions) {
    diag.setLogger(diagLogger(options.onFailure), {
      logLevel: DiagLogLevel.WARN,
      suppressOverrideMessage: true,
    });
    const resource = resourceOf(settings, options.version);
    this.#spans = new TracerProvider({
      resource,
      sampler: samplerOf(settings.sampleRatio),
      spanLimits: { attributeValueLengthLimit: MAX_ATTRIBUTE_LENGTH },
      spanProcessors: processorsOf(settings, options),
      idGenerator: new PooledIds(),
    });
    this.#tracer = this.#spans.getTracer(SCOPE, options.version);
    this.#meters = metersOf(settings, options, resource);
    this.#isGlobal = options.isGlobal;
    if (!options.isGlobal) return;
    const contexts = new AsyncLocalStorageContextManager();
    context.setGlobalContextManager(contexts.enable());
    propagation.setGlobalPropagator(new W3CTraceContextPropagator());
    trace.setGlobalTracerProvider(this.#spans);
  }

  startSpan(name: string, start: SpanStart): OpenSpan {
    const { attributes = {}, parent, startedAtMs, isServer = false } = start;
    const kind = isServer ? SpanKind.SERVER : SpanKind.INTERNAL;
    const span = this.#tracer.startSpan(
      name,
      { kind, attributes, ...(startedAtMs !== undefined && { startTime: startedAtMs }) },
      parent === undefined ? ROOT_CONTEXT : remote(parent),
    );
    const { traceId, spanId, traceFlags, traceState } = span.spanContext();
    const tracestate = traceState?.serialize();
    return {
      context: {
        traceparent: traceparentOf({ traceId, spanId, flags: traceFlags }),
        ...(tracestate && { tracestate }),
      },
      end: ({ attributes: late = {}, error } = {}) => {
        span.setAttributes(late);
        if (error !== undefined) {
          span.setAttribute("error", true);
          span.setStatus({ code: SpanStatusCode.ERROR, message: error });
        }
        span.end();
      },
    };
  }

  async flush(): Promise<void> {
    await Promise.all([this.#spans.forceFlush(), this.#meters?.forceFlush()]);
  }

  async stop(): Promise<void> {
    const over = Promise.withResolvers<void>();
    const timer = setTimeout(() => over.resolve(), STOP_TIMEOUT_MS);
    const sent = Promise.allSettled([this.#spans.shutdown(), this.#meters?.shutdown()]);
    await Promise.race([sent, over.promise]);
    clearTimeout(timer);
    if (!this.#isGlobal) return;
    // Allows a new instance in this process to register.
    trace.disable();
    context.disable();
    propagation.disable();
  }
}

function remote(parent: TraceContext): Context {
  const { traceId, spanId, flags } = idsOf(parent);
  const { tracestate } = parent;
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: flags,
    isRemote: true,
    ...(tracestate !== undefined && { traceState: new TraceState(tracestate) }),
  });
}

function resourceOf(settings: TelemetrySettings, version: string): Resource {
  return defaultResource().merge(
    resourceFromAttributes({
      "service.version": version,
      ...settings.resourceAttributes,
      "service.name": settings.serviceName,
    }),
  );
}

/** Callers decide for their traces; the ratio only applies to traces that begin here. */
function samplerOf(ratio: number): Sampler {
  if (ratio >= 1) return new ParentBasedSampler({ root: new AlwaysOnSampler() });
  if (ratio <= 0) return new ParentBasedSampler({ root: new AlwaysOffSampler() });
  return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) });
}

function processorsOf(settings: TelemetrySettings, options: StartOptions): SpanProcessor[] {
  const { traces, batchDelayMs } = settings;
  if (traces === undefined) return [];
  const exporter =
    traces.protocol === "http/json"
      ? new JsonTraceExporter(exporterOptions(traces))
      : new ProtobufTraceExporter(exporterOptions(traces));
  const batches = new BatchSpanProcessor({
    exporter,
    scheduledDelayMillis: batchDelayMs,
    maxQueueSize: MAX_QUEUED_SPANS,
    exportTimeoutMillis: EXPORT_TIMEOUT_MS,
  });
  const { keepsScope } = options;
  return [keepsScope === undefined ? batches : new ScopeFilter(batches, keepsScope)];
}

function metersOf(
  { metrics, metricIntervalMs }: TelemetrySettings,
  { families }: StartOptions,
  resource: Resource,
): MeterProvider | undefined {
  if (metrics === undefined || families === undefined) return undefined;
  const exporter =
    metrics.protocol === "http/json"
      ? new JsonMetricExporter(exporterOptions(metrics))
      : new ProtobufMetricExporter(exporterOptions(metrics));
  const reader = new PeriodicExportingMetricReader({
    exporter,
    exportIntervalMillis: metricIntervalMs,
    exportTimeoutMillis: Math.min(EXPORT_TIMEOUT_MS, metricIntervalMs),
    metricProducers: [new FamilyProducer(SCOPE, families)],
  });
  return new MeterProvider({ resource, readers: [reader] });
}

function exporterOptions({ url, headers }: OtlpTarget) {
  return { url, headers: { ...headers }, timeoutMillis: EXPORT_TIMEOUT_MS };
}

/** An unreachable collector must be reported, but not every second. */
function diagLogger(onFailure: (message: string) => void): DiagLogger {
  const tell = (message: string): void => onFailure(message.slice(0, 500));
  const ignore = (): void => undefined;
  return { error: tell, warn: tell, info: ignore, debug: ignore, verbose: ignore };
}

/** Drops spans of libraries that reveal too much. */
class ScopeFilter implements SpanProcessor {
  readonly #next: SpanProcessor;
  readonly #keeps: (name: string) => boolean;

  constructor(next: SpanProcessor, keeps: (name: string) => boolean) {
    this.#next = next;
    this.#keeps = keeps;
  }

  onStart(...args: Parameters<SpanProcessor["onStart"]>): void {
    this.#next.onStart(...args);
  }

  onEnd(span: ReadableSpan): void {
    if (this.#keeps(span.instrumentationScope.name)) this.#next.onEnd(span);
  }

  forceFlush(): Promise<void> {
    return this.#next.forceFlush();
  }

  shutdown(): Promise<void> {
    return this.#next.shutdown();
  }
}
