/** Sends spans and metrics to an OpenTelemetry collector. Loads the SDK, so import it only when needed. */
import {
  context,
  diag,
  DiagLogLevel,
  propagation,
  ROOT_CONTEXT,
  trace,
  TraceFlags,
} from "@opentelemetry/api";
import type { DiagLogger } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { OTLPMetricExporter as JsonMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http";
import { OTLPMetricExporter as ProtobufMetricExporter } from "@opentelemetry/exporter-metrics-otlp-proto";
import { OTLPTraceExporter as JsonTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtobufTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { defaultResource, resourceFromAttributes } from "@opentelemetry/resources";
import type { Resource } from "@opentelemetry/resources";
import { MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  SamplingDecision,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { ReadableSpan, SpanProcessor } from "@opentelemetry/sdk-trace";
import { FamilyProducer } from "./family-producer.ts";
import { PooledIds } from "./pooled-ids.ts";
import { MAX_ATTRIBUTE_LENGTH, RecordedSpan } from "./recorded-span.ts";
import type { SpanOrigin } from "./recorded-span.ts";
import type { OtlpTarget, TelemetrySettings } from "./settings-from-environment.ts";
import type { OpenSpan, SpanStart, StartedTelemetry, StartOptions } from "./started-telemetry.ts";
import { SpanTrace } from "./span-trace.ts";
import type { TraceIds } from "./trace-context.ts";

const SCOPE = "sandkasten";
const STOP_TIMEOUT_MS = 5000;
const EXPORT_TIMEOUT_MS = 10_000;
/** Bounds the memory used while the collector is unreachable; further spans are dropped. */
const MAX_QUEUED_SPANS = 4096;

export class OtlpTelemetry implements StartedTelemetry {
  readonly #spans: TracerProvider;
  readonly #origin: SpanOrigin;
  readonly #rootSampler: TraceIdRatioBasedSampler;
  readonly #ids = new PooledIds();
  readonly #meters: MeterProvider | undefined;
  readonly #isGlobal: boolean;

  constructor(settings: TelemetrySettings, options: StartOptions) {
    diag.setLogger(diagLogger(options.onFailure), {
      logLevel: DiagLogLevel.WARN,
      suppressOverrideMessage: true,
    });
    const resource = resourceOf(settings, options.version);
    const spanProcessors = processorsOf(settings, options);
    const scope = { name: SCOPE, version: options.version };
    this.#origin = { resource, scope, processors: spanProcessors };
    this.#rootSampler = new TraceIdRatioBasedSampler(settings.sampleRatio);
    this.#spans = new TracerProvider({
      resource,
      sampler: new ParentBasedSampler({ root: this.#rootSampler }),
      spanLimits: { attributeValueLengthLimit: MAX_ATTRIBUTE_LENGTH },
      spanProcessors,
      idGenerator: this.#ids,
    });
    this.#meters = metersOf(settings, options, resource);
    this.#isGlobal = options.isGlobal;
    if (!options.isGlobal) return;
    const contexts = new AsyncLocalStorageContextManager();
    context.setGlobalContextManager(contexts.enable());
    propagation.setGlobalPropagator(new W3CTraceContextPropagator());
    trace.setGlobalTracerProvider(this.#spans);
  }

  /** Spans of libraries come from the tracer; our own are cheaper. */
  startSpan(name: string, start: SpanStart): OpenSpan {
    const parent = start.parent && SpanTrace.of(start.parent);
    const context = new SpanTrace(this.#idsBelow(parent), parent?.tracestate, false);
    return new RecordedSpan(name, context, parent, start, this.#origin);
  }

  /**
   * The caller decides whether its trace is sampled; the ratio applies to traces that begin here.
   */
  #idsBelow(parent: SpanTrace | undefined): TraceIds {
    const spanId = this.#ids.generateSpanId();
    if (parent !== undefined)
      return { traceId: parent.traceId, spanId, flags: parent.traceFlags & TraceFlags.SAMPLED };
    const traceId = this.#ids.generateTraceId();
    const { decision } = this.#rootSampler.shouldSample(ROOT_CONTEXT, traceId);
    const isKept = decision === SamplingDecision.RECORD_AND_SAMPLED;
    return { traceId, spanId, flags: isKept ? TraceFlags.SAMPLED : TraceFlags.NONE };
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

function resourceOf(settings: TelemetrySettings, version: string): Resource {
  return defaultResource().merge(
    resourceFromAttributes({
      "service.version": version,
      ...settings.resourceAttributes,
      "service.name": settings.serviceName,
    }),
  );
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
