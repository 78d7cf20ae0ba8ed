/** Which hosts the session may connect to, and its connections. */
import type { EgressRecord, SessionInfo } from "@sandkasten/sdk";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Card } from "../parts/card.tsx";
import { bytes, messageOf, timeOfDay } from "../parts/format.ts";
import { Empty, Failure } from "../parts/notice.tsx";
import { Status } from "../parts/status.tsx";
import { type Column, Table } from "../parts/table.tsx";
import type { TabProps } from "./tab-props.ts";

const MOST_SHOWN = 500;

/** Totals of all records, and the newest ones. */
interface Use {
  readonly newest: readonly EgressRecord[];
  readonly sentBytes: number;
  readonly receivedBytes: number;
  readonly refused: number;
}

const NOTHING: Use = { newest: [], sentBytes: 0, receivedBytes: 0, refused: 0 };

const withRecord = (use: Use, record: EgressRecord): Use => ({
  newest: [record, ...use.newest].slice(0, MOST_SHOWN),
  sentBytes: use.sentBytes + record.sentBytes,
  receivedBytes: use.receivedBytes + record.receivedBytes,
  refused: use.refused + (record.verdict === "refused" ? 1 : 0),
});

const COLUMNS: readonly Column<EgressRecord>[] = [
  { title: "Time", class: "number", cell: ({ startedAt }) => timeOfDay(startedAt) },
  {
    title: "Host",
    class: "mono",
    cell: ({ name, address, port }) =>
      `${name ?? address ?? "?"}${port === undefined ? "" : `:${port}`}`,
  },
  {
    title: "Verdict",
    cell: ({ verdict, reason }) => (
      <>
        <Status of={verdict} /> <span class="muted">{reason}</span>
      </>
    ),
  },
  { title: "Sent", class: "number", cell: ({ sentBytes }) => bytes(sentBytes) },
  { title: "Received", class: "number", cell: ({ receivedBytes }) => bytes(receivedBytes) },
];

export function NetworkTab({ session, info }: TabProps): JSX.Element {
  const [use, setUse] = useState(NOTHING);
  const [failure, setFailure] = useState<string | undefined>(undefined);
  useEffect(() => {
    const left = new AbortController();
    const follow = async (): Promise<void> => {
      for await (const record of session.followEgress({ signal: left.signal }))
        setUse((known) => withRecord(known, record));
    };
    follow().catch((error: unknown) => {
      if (!left.signal.aborted) setFailure(messageOf(error));
    });
    return () => left.abort();
  }, [session]);
  return (
    <div class="scroll" tabIndex={0}>
      <div class="cards">
        <Card title="Allowed" text={rulesOf(info)} />
        <Card title="Sent" text={bytes(use.sentBytes)} />
        <Card title="Received" text={bytes(use.receivedBytes)} />
        <Card title="Refused" text={String(use.refused)} />
      </div>
      <Failure of={failure} />
      {use.newest.length > 0 ? (
        <Table items={use.newest} keyOf={({ cursor }) => cursor} columns={COLUMNS} />
      ) : (
        <Empty>
          {info.network === "none"
            ? "This session has no network except loopback."
            : "No connections yet. They are listed here when they end."}
        </Empty>
      )}
    </div>
  );
}

function rulesOf({ network }: SessionInfo): string {
  if (network === "none") return "nothing";
  if (network === "full") return "every public address";
  return network.allow.length === 0 ? "nothing yet" : network.allow.join(", ");
}
