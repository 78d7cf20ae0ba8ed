/** Follows a session's outbound connections, reconnecting as needed. */
import type { EgressRecordBody } from "@sandkasten/protocol";
import { resumeEvents } from "./event-stream.ts";
import { type EgressRecord, toEgressRecord } from "./network-types.ts";
import type { Transport } from "./transport.ts";

export async function* followEgress(
  transport: Transport,
  base: string,
  from: { readonly cursor?: number | undefined; readonly signal?: AbortSignal | undefined },
): AsyncGenerator<EgressRecord, void, undefined> {
  let cursor = from.cursor ?? 0;
  const events = resumeEvents({
    open: () =>
      transport.open({
        method: "GET",
        path: `${base}/egress/stream`,
        query: { cursor: String(cursor) },
        signal: from.signal,
      }),
    policy: transport.options,
    signal: from.signal,
    what: "following the session's connections",
  });
  for await (const { type, data } of events) {
    if (type !== "connection") continue;
    const record = toEgressRecord(data as EgressRecordBody);
    cursor = record.cursor;
    yield record;
  }
}
