/** The daemon's current state, as gauges. */
import type { MetricFamily, MetricSample } from "@sandkasten/telemetry";
import type { StorageUse } from "../ports/backend.ts";
import type { ImageUsage } from "../ports/image-store.ts";
import type { ServiceCounts } from "../sessions/services/services.ts";

export function serviceFamilies(
  { sessions, runningExecs, pooled, journal, images, waitingCreates, egress }: ServiceCounts,
  storage: readonly StorageUse[],
): readonly MetricFamily[] {
  return [
    gauge("sandkasten_sessions", "Sessions by status", byLabel("status", Object.entries(sessions))),
    gauge("sandkasten_running_execs", "Commands that are queued or running", one(runningExecs)),
    gauge("sandkasten_pooled_sandboxes", "Sandboxes created in advance", one(pooled)),
    gauge("sandkasten_journal_bytes", "Disk space used by command output", one(journal.bytes)),
    {
      ...gauge(
        "sandkasten_journal_pruned_sessions_total",
        "Ended sessions whose output was removed to make room",
        one(journal.prunedSessions),
      ),
      type: "counter",
    },
    gauge("sandkasten_images", "Unpacked images", ofImages(images, "images")),
    gauge("sandkasten_image_bytes", "Disk space used by images", ofImages(images, "bytes")),
    gauge(
      "sandkasten_image_bytes_limit",
      "Disk space limit for images",
      ofImages(images, "maxBytes"),
    ),
    gauge("sandkasten_waiting_creates", "Sandboxes waiting to be created", one(waitingCreates)),
    gauge(
      "sandkasten_egress_open_connections",
      "Open outbound connections of sandboxes",
      one(egress.open),
    ),
    {
      ...gauge(
        "sandkasten_egress_connections_total",
        "Outbound connections of sandboxes by verdict",
        byLabel("verdict", Object.entries(egress.connections)),
      ),
      type: "counter",
    },
    {
      ...gauge(
        "sandkasten_egress_bytes_total",
        "Bytes that sandboxes sent to and received from other hosts",
        byLabel("direction", [
          ["sent", egress.sentBytes],
          ["received", egress.receivedBytes],
        ]),
      ),
      type: "counter",
    },
    gauge(
      "sandkasten_storage_bytes",
      "Disk space by kind of data",
      byLabel(
        "kind",
        storage.map(({ kind, bytes }) => [kind, bytes] as const),
      ),
    ),
    gauge(
      "sandkasten_storage_files",
      "Files by kind of data",
      byLabel(
        "kind",
        storage.map(({ kind, files }) => [kind, files] as const),
      ),
    ),
    gauge(
      "process_resident_memory_bytes",
      "Resident memory of the daemon",
      one(process.memoryUsage.rss()),
    ),
    gauge("process_uptime_seconds", "Uptime of the daemon", one(process.uptime())),
  ];
}

function gauge(name: string, help: string, samples: readonly MetricSample[]): MetricFamily {
  return { name, help, type: "gauge", samples };
}

function one(value: number): readonly MetricSample[] {
  return [{ labels: {}, value }];
}

function byLabel(
  label: string,
  values: readonly (readonly [string, number])[],
): readonly MetricSample[] {
  return values.map(([name, value]) => ({ labels: { [label]: name }, value }));
}

function ofImages(
  images: ServiceCounts["images"],
  field: keyof ImageUsage,
): readonly MetricSample[] {
  return byLabel(
    "backend",
    [...images].map(([backend, usage]) => [backend, usage[field]] as const),
  );
}
