/**
 * One of our spans, from its start until it is sent. The SDK's own spans check and copy every
 * attribute several times while a command waits; here all work is deferred until a batch is sent.
 */
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import type { Attributes, HrTime, SpanStatus } from "@opentelemetry/api";
import type { Resource } from "@opentelemetry/resources";
import type { ReadableSpan, SpanProcessor } from "@opentelemetry/sdk-trace";
import type { OpenSpan, SpanAttributes, SpanStart } from "./started-telemetry.ts";
import type { SpanTrace } from "./span-trace.ts";

/** The limit for every string in a span, including spans of other programs. */
export const MAX_ATTRIBUTE_LENGTH = 8192;

const SAMPLED = 1;
const UNSET: SpanStatus = { code: SpanStatusCode.UNSET };
const NONE: never[] = [];

/** Common properties of all spans of a process. */
export interface SpanOrigin {
  readonly resource: Resource;
  readonly scope: ReadableSpan["instrumentationScope"];
  readonly processors: readonly SpanProcessor[];
}

type Outcome = NonNullable<Parameters<OpenSpan["end"]>[0]>;

export class RecordedSpan implements OpenSpan, ReadableSpan {
  readonly context: SpanTrace;
  readonly parentSpanContext?: SpanTrace;
  readonly name: string;
  readonly ended = true;
  readonly links = NONE;
  readonly events = NONE;
  readonly droppedAttributesCount = 0;
  readonly droppedEventsCount = 0;
  readonly droppedLinksCount = 0;
  readonly #origin: SpanOrigin;
  readonly #start: SpanStart;
  readonly #beganAtMs: number;
  readonly #beganMs = performance.now();
  #durationMs = 0;
  #outcome: Outcome | undefined;
  #attributes: Attributes | undefined;

  constructor(
    name: string,
    context: SpanTrace,
    parent: SpanTrace | undefined,
    start: SpanStart,
    origin: SpanOrigin,
  ) {
    this.name = name;
    this.context = context;
    if (parent !== undefined) this.parentSpanContext = parent;
    this.#start = start;
    this.#beganAtMs = start.startedAtMs ?? Date.now();
    this.#origin = origin;
  }

  end(outcome?: Outcome): void {
    if ((this.context.traceFlags & SAMPLED) === 0) return;
    this.#outcome = outcome;
    this.#durationMs =
      this.#start.startedAtMs === undefined
        ? performance.now() - this.#beganMs
        : // One that began in an earlier process has a beginning by the clock only.
          Math.max(0, Date.now() - this.#beganAtMs);
    for (const processor of this.#origin.processors) processor.onEnd(this);
  }

  spanContext(): SpanTrace {
    return this.context;
  }

  get kind(): SpanKind {
    return this.#start.isServer === true ? SpanKind.SERVER : SpanKind.INTERNAL;
  }

  get startTime(): HrTime {
    return hrTimeOf(this.#beganAtMs);
  }

  get endTime(): HrTime {
    return hrTimeOf(this.#beganAtMs + this.#durationMs);
  }

  get duration(): HrTime {
    return hrTimeOf(this.#durationMs);
  }

  get status(): SpanStatus {
    const message = this.#outcome?.error;
    return message === undefined ? UNSET : { code: SpanStatusCode.ERROR, message };
  }

  /** Cached: the exporter asks twice, for the size of the message and for its content. */
  get attributes(): Attributes {
    this.#attributes ??= this.#allAttributes();
    return this.#attributes;
  }

  get resource(): Resource {
    return this.#origin.resource;
  }

  get instrumentationScope(): ReadableSpan["instrumentationScope"] {
    return this.#origin.scope;
  }

  #allAttributes(): Attributes {
    const attributes: Attributes = {};
    add(attributes, this.#start.attributes);
    add(attributes, this.#outcome?.attributes);
    if (this.#outcome?.error !== undefined) attributes["error"] = true;
    return attributes;
  }
}

function add(attributes: Attributes, more: SpanAttributes = {}): void {
  for (const [name, value] of Object.entries(more))
    if (value !== undefined)
      attributes[name] = typeof value === "string" ? value.slice(0, MAX_ATTRIBUTE_LENGTH) : value;
}

function hrTimeOf(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.floor((ms - seconds * 1000) * 1e6)];
}
