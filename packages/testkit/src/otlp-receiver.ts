/** An OTLP receiver over HTTP, which decodes with OpenTelemetry's own definitions and keeps everything. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";

type Value = string | number | boolean | undefined;
export type ReceivedAttributes = Readonly<Record<string, Value>>;

export interface ReceivedSpan {
  readonly service: Value;
  readonly scope: string;
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly durationMs: number;
  readonly attributes: ReceivedAttributes;
  readonly isError: boolean;
  readonly statusMessage: string;
  /** Whether it is the answer to a request of another process. */
  readonly isServer: boolean;
}

export interface ReceivedPoint {
  readonly service: Value;
  readonly metric: string;
  readonly attributes: ReceivedAttributes;
  /** For a counter or gauge. */
  readonly value?: number;
  /** For a histogram. */
  readonly count?: number;
  readonly sum?: number;
}

export class OtlpReceiver implements AsyncDisposable {
  readonly spans: ReceivedSpan[] = [];
  /** In order of arrival. */
  readonly points: ReceivedPoint[] = [];
  /** Everything received, as text, for searching what must not be in it. */
  readonly bodies: string[] = [];
  readonly contentTypes = new Set<string>();
  readonly authorizations = new Set<string | undefined>();
  readonly #server: Server;
  #news = Promise.withResolvers<void>();

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<OtlpReceiver> {
    const server = createServer();
    const receiver = new OtlpReceiver(server);
    server.on("request", (request, response) => {
      receiver.#take(request, response).catch((error: unknown) => {
        response.writeHead(500).end(String(error));
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The first matching span, now or later. */
  async span(fits: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan> {
    return await this.#first(() => this.spans.find(fits));
  }

  /** The latest matching point, now or later. */
  async point(fits: (point: ReceivedPoint) => boolean): Promise<ReceivedPoint> {
    return await this.#first(() => this.points.findLast(fits));
  }

  async #first<Found>(find: () => Found | undefined): Promise<Found> {
    for (;;) {
      const found = find();
      if (found !== undefined) return found;
      await this.#news.promise;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const sent = await buffer(request);
    const bytes = request.headers["content-encoding"] === "gzip" ? gunzipSync(sent) : sent;
    const signal = request.url === "/v1/traces" ? "trace" : "metrics";
    if (request.method !== "POST" || !["/v1/traces", "/v1/metrics"].includes(request.url ?? "")) {
      response.writeHead(404).end();
      return;
    }
    const type = request.headers["content-type"] ?? "";
    const body = type === "application/json" ? fromJson(bytes) : await fromProtobuf(signal, bytes);
    this.contentTypes.add(type);
    this.authorizations.add(request.headers.authorization);
    this.bodies.push(JSON.stringify(body));
    if (signal === "trace") this.spans.push(...spansOf(body));
    else this.points.push(...pointsOf(body));
    response.writeHead(200, { "content-type": type }).end(type === "application/json" ? "{}" : "");
    const news = this.#news;
    this.#news = Promise.withResolvers();
    news.resolve();
  }
}

type Json = Record<string, unknown>;

function fromJson(bytes: Buffer): Json {
  return JSON.parse(bytes.toString()) as Json;
}

interface MessageType {
  decode(bytes: Uint8Array): object;
  toObject(message: object, options: object): Json;
}

async function fromProtobuf(signal: "trace" | "metrics", bytes: Buffer): Promise<Json> {
  const { default: root } =
    await import("@opentelemetry/otlp-transformer/build/src/generated/root.js");
  const { collector } = (root as unknown as Generated).opentelemetry.proto;
  const type =
    signal === "trace"
      ? collector.trace.v1.ExportTraceServiceRequest
      : collector.metrics.v1.ExportMetricsServiceRequest;
  return type.toObject(type.decode(bytes), { longs: String });
}

interface Generated {
  readonly opentelemetry: {
    readonly proto: {
      readonly collector: {
        readonly trace: { readonly v1: { readonly ExportTraceServiceRequest: MessageType } };
        readonly metrics: { readonly v1: { readonly ExportMetricsServiceRequest: MessageType } };
      };
    };
  };
}

interface Resource {
  readonly resource?: { readonly attributes?: readonly KeyValue[] };
}

interface KeyValue {
  readonly key: string;
  readonly value?: {
    readonly stringValue?: string;
    readonly boolValue?: boolean;
    readonly intValue?: string | number;
    readonly doubleValue?: number;
  };
}

interface SpanBody {
  readonly name: string;
  readonly kind?: number;
  readonly traceId: string | Uint8Array;
  readonly spanId: string | Uint8Array;
  readonly parentSpanId?: string | Uint8Array;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes?: readonly KeyValue[];
  readonly status?: { readonly code?: number; readonly message?: string };
}

function spansOf(body: Json): ReceivedSpan[] {
  const resources = (body["resourceSpans"] ?? []) as readonly (Resource & {
    readonly scopeSpans?: readonly {
      readonly scope?: { readonly name?: string };
      readonly spans?: readonly SpanBody[];
    }[];
  })[];
  return resources.flatMap(({ resource, scopeSpans = [] }) => {
    const service = attributesOf(resource?.attributes)["service.name"];
    return scopeSpans.flatMap(({ scope, spans = [] }) =>
      spans.map((span) => ({
        service,
        scope: scope?.name ?? "",
        name: span.name,
        traceId: hex(span.traceId),
        spanId: hex(span.spanId),
        parentSpanId: hex(span.parentSpanId ?? ""),
        durationMs: Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)) / 1e6,
        attributes: attributesOf(span.attributes),
        isError: span.status?.code === 2,
        statusMessage: span.status?.message ?? "",
        isServer: span.kind === 2,
      })),
    );
  });
}

interface PointBody {
  readonly attributes?: readonly KeyValue[];
  readonly asDouble?: number;
  readonly asInt?: string | number;
  readonly count?: string | number;
  readonly sum?: number;
}

interface MetricBody {
  readonly name: string;
  readonly sum?: { readonly dataPoints?: readonly PointBody[] };
  readonly gauge?: { readonly dataPoints?: readonly PointBody[] };
  readonly histogram?: { readonly dataPoints?: readonly PointBody[] };
}

function pointsOf(body: Json): ReceivedPoint[] {
  const resources = (body["resourceMetrics"] ?? []) as readonly (Resource & {
    readonly scopeMetrics?: readonly { readonly metrics?: readonly MetricBody[] }[];
  })[];
  return resources.flatMap(({ resource, scopeMetrics = [] }) => {
    const service = attributesOf(resource?.attributes)["service.name"];
    return scopeMetrics
      .flatMap(({ metrics = [] }) => metrics)
      .flatMap(({ name, sum, gauge, histogram }) =>
        ((sum ?? gauge ?? histogram)?.dataPoints ?? []).map((point) => ({
          service,
          metric: name,
          attributes: attributesOf(point.attributes),
          ...(histogram === undefined
            ? { value: Number(point.asDouble ?? point.asInt) }
            : { count: Number(point.count), sum: Number(point.sum) }),
        })),
      );
  });
}

function attributesOf(attributes: readonly KeyValue[] = []): ReceivedAttributes {
  return Object.fromEntries(
    attributes.map(({ key, value: { stringValue, boolValue, intValue, doubleValue } = {} }) => [
      key,
      stringValue ??
        boolValue ??
        doubleValue ??
        (intValue === undefined ? undefined : Number(intValue)),
    ]),
  );
}

function hex(id: string | Uint8Array): string {
  return typeof id === "string" ? id : Buffer.from(id).toString("hex");
}
