/** Which hosts the session may connect to, and which it did connect to. */
import type { EgressRecord, SessionInfo } from "@sandkasten/sdk";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Card } from "../parts/card.tsx";
import { bytes, messageOf, timeOfDay } from "../parts/format.ts";
import { Empty, Failure } from "../parts/notice.tsx";
import { Status } from "../parts/status.tsx";
import type { TabProps } from "./tab-props.ts";

const MOST_SHOWN = 500;

export function NetworkTab({ session, info }: TabProps): JSX.Element {
  const [records, setRecords] = useState<readonly EgressRecord[]>([]);
  const [failure, setFailure] = useState<string | undefined>(undefined);
  useEffect(() => {
    const left = new AbortController();
    const follow = async (): Promise<void> => {
      for await (const record of session.followEgress({ signal: left.signal }))
        setRecords((known) => [record, ...known].slice(0, MOST_SHOWN));
    };
    follow().catch((error: unknown) => {
      if (!left.signal.aborted) setFailure(messageOf(error));
    });
    return () => left.abort();
  }, [session]);
  const sum = (of: (record: EgressRecord) => number): number =>
    records.reduce((total, record) => total + of(record), 0);
  return (
    <div class="scroll" tabIndex={0}>
      <div class="cards">
        <Card title="Network" text={rulesOf(info)} />
        <Card title="Sent" text={bytes(sum(({ sentBytes }) => sentBytes))} />
        <Card title="Received" text={bytes(sum(({ receivedBytes }) => receivedBytes))} />
        <Card
          title="Refused"
          text={String(records.filter(({ verdict }) => verdict === "refused").length)}
        />
      </div>
      <Failure of={failure} />
      {records.length === 0 ? (
        <Empty>
          {info.network === "none"
            ? "The session has no network but loopback."
            : "No connections yet."}
        </Empty>
      ) : (
        <table class="plain-table">
          <thead>
            <tr>
              {["Time", "Host", "Verdict", "Sent", "Received"].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {records.map((record) => (
              <Row key={record.cursor} record={record} />
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}

function Row({ record }: { readonly record: EgressRecord }): JSX.Element {
  const { startedAt, name, address, port, verdict, reason, sentBytes, receivedBytes } = record;
  return (
    <tr>
      <td class="number">{timeOfDay(startedAt)}</td>
      <td class="mono">
        {name ?? address ?? "?"}
        {port !== undefined && `:${port}`}
      </td>
      <td>
        <Status of={verdict} /> <span class="muted">{reason}</span>
      </td>
      <td class="number">{bytes(sentBytes)}</td>
      <td class="number">{bytes(receivedBytes)}</td>
    </tr>
  );
}

function rulesOf({ network }: SessionInfo): string {
  if (network === "none" || network === "full") return network;
  return network.allow.length === 0 ? "nothing allowed" : network.allow.join(", ");
}
