/** Counts requests and how long they took, and writes it down in the format of Prometheus. */
import type { StorageUse } from "../ports/backend.ts";
import type { ImageUsage } from "../ports/image-store.ts";
import type { ServiceCounts } from "../sessions/services.ts";

const BUCKETS_SECONDS = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 60];

interface RouteCounts {
  readonly labels: string;
  readonly byStatus: Map<number, number>;
  readonly buckets: number[];
  seconds: number;
  timed: number;
}

export interface FinishedRequest {
  readonly method: string;
  /** The pattern, never the path: labels must be few and none of them secret. */
  readonly route: string;
  readonly status: number;
  readonly durationMs: number;
  /** Streams last as long as somebody listens; that is no measure of anything. */
  readonly stream: boolean;
}

export class RequestMetrics {
  readonly #routes = new Map<string, RouteCounts>();

  count(request: FinishedRequest): void {
    const counts = this.#countsOf(request);
    counts.byStatus.set(request.status, (counts.byStatus.get(request.status) ?? 0) + 1);
    if (request.stream) return;
    const seconds = request.durationMs / 1000;
    counts.seconds += seconds;
    counts.timed += 1;
    const bucket = BUCKETS_SECONDS.findIndex((limit) => seconds <= limit);
    if (bucket !== -1) counts.buckets[bucket] = (counts.buckets[bucket] ?? 0) + 1;
  }

  render(
    { sessions, runningExecs, pooled, journal, images, waitingCreates }: ServiceCounts,
    storage: readonly StorageUse[],
  ): string {
    return [
      ...family("sandkasten_sessions", "gauge", "Sessions by status"),
      ...Object.entries(sessions).map(
        ([status, n]) => `sandkasten_sessions{status="${status}"} ${n}`,
      ),
      ...family("sandkasten_running_execs", "gauge", "Commands that wait or run"),
      `sandkasten_running_execs ${runningExecs}`,
      ...family("sandkasten_pooled_sandboxes", "gauge", "Sandboxes made in advance"),
      `sandkasten_pooled_sandboxes ${pooled}`,
      ...family("sandkasten_journal_bytes", "gauge", "Disk space of commands' output"),
      `sandkasten_journal_bytes ${journal.bytes}`,
      ...family(
        "sandkasten_journal_pruned_sessions_total",
        "counter",
        "Ended sessions whose output was removed to make room",
      ),
      `sandkasten_journal_pruned_sessions_total ${journal.prunedSessions}`,
      ...family("sandkasten_images", "gauge", "Images that are unpacked"),
      ...imageLines("sandkasten_images", images, (usage) => usage.images),
      ...family("sandkasten_image_bytes", "gauge", "Disk space of images"),
      ...imageLines("sandkasten_image_bytes", images, (usage) => usage.bytes),
      ...family("sandkasten_image_bytes_limit", "gauge", "Disk space that images may take"),
      ...imageLines("sandkasten_image_bytes_limit", images, (usage) => usage.maxBytes),
      ...family("sandkasten_waiting_creates", "gauge", "Sandboxes that wait to be created"),
      `sandkasten_waiting_creates ${waitingCreates}`,
      ...family("sandkasten_storage_bytes", "gauge", "Disk space by what takes it up"),
      ...storage.map(({ kind, bytes }) => `sandkasten_storage_bytes{kind="${kind}"} ${bytes}`),
      ...family("sandkasten_storage_files", "gauge", "Files by what they are"),
      ...storage.map(({ kind, files }) => `sandkasten_storage_files{kind="${kind}"} ${files}`),
      ...family("process_resident_memory_bytes", "gauge", "Memory of the daemon"),
      `process_resident_memory_bytes ${process.memoryUsage.rss()}`,
      ...family("process_uptime_seconds", "gauge", "Age of the daemon"),
      `process_uptime_seconds ${process.uptime().toFixed(3)}`,
      ...family("sandkasten_http_requests_total", "counter", "Requests by route and status"),
      ...[...this.#routes.values()].flatMap(totals),
      ...family(
        "sandkasten_http_request_duration_seconds",
        "histogram",
        "Time to answer, without streams",
      ),
      ...[...this.#routes.values()].flatMap(durations),
      "",
    ].join("\n");
  }

  #countsOf({ method, route }: FinishedRequest): RouteCounts {
    const name = `${method} ${route}`;
    let counts = this.#routes.get(name);
    if (counts === undefined) {
      const labels = `method="${escaped(method)}",route="${escaped(route)}"`;
      const buckets = BUCKETS_SECONDS.map(() => 0);
      counts = { labels, byStatus: new Map(), buckets, seconds: 0, timed: 0 };
      this.#routes.set(name, counts);
    }
    return counts;
  }
}

function family(name: string, type: string, help: string): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`];
}

function imageLines(
  name: string,
  images: ServiceCounts["images"],
  value: (usage: ImageUsage) => number,
): string[] {
  return [...images].map(
    ([backend, usage]) => `${name}{backend="${escaped(backend)}"} ${value(usage)}`,
  );
}

function totals({ labels, byStatus }: RouteCounts): string[] {
  return [...byStatus].map(
    ([status, n]) => `sandkasten_http_requests_total{${labels},status="${status}"} ${n}`,
  );
}

function durations({ labels, buckets, seconds, timed }: RouteCounts): string[] {
  const name = "sandkasten_http_request_duration_seconds";
  let sum = 0;
  const lines = BUCKETS_SECONDS.map((limit, index) => {
    sum += buckets[index] ?? 0;
    return `${name}_bucket{${labels},le="${limit}"} ${sum}`;
  });
  return [
    ...lines,
    `${name}_bucket{${labels},le="+Inf"} ${timed}`,
    `${name}_sum{${labels}} ${seconds.toFixed(6)}`,
    `${name}_count{${labels}} ${timed}`,
  ];
}

function escaped(text: string): string {
  return text.replaceAll(/[\\"\n]/g, (sign) => (sign === "\n" ? String.raw`\n` : `\\${sign}`));
}
