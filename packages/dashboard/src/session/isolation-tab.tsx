/** How well the session is isolated, as measured inside it. */
import type { IsolationReport } from "@sandkasten/sdk";
import type { JSX } from "preact";
import { Card } from "../parts/card.tsx";
import { Failure, Loading } from "../parts/notice.tsx";
import { Status } from "../parts/status.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { useLoaded } from "../parts/use-loaded.ts";
import type { TabProps } from "./tab-props.ts";

type Fact = IsolationReport["facts"][number];

/** A missing measure is bad only if the tier requires it: most sessions share the host's kernel. */
const columnsFor = (tier: IsolationReport["tier"]): readonly Column<Fact>[] => [
  { title: "Measure", class: "mono", cell: ({ name }) => name },
  {
    title: "State",
    cell: ({ enforced }) =>
      enforced ? (
        <Status of="enforced" />
      ) : (
        <Status of="missing" tone={tier === "weak" ? "bad" : "quiet"} />
      ),
  },
  { title: "Measured", class: "muted", cell: ({ measured }) => measured },
];

/** Missing measures come first. */
export function IsolationTab({ session, info }: TabProps): JSX.Element {
  const { value: report, failure } = useLoaded(
    (signal) => session.isolation({ signal }),
    [session],
  );
  if (report === undefined)
    return failure === undefined ? <Loading text="Measuring…" /> : <Failure of={failure} />;
  const facts = report.facts.toSorted(
    (one, other) => Number(one.enforced) - Number(other.enforced),
  );
  const missing = facts.filter(({ enforced }) => !enforced).length;
  return (
    <div class="scroll" tabIndex={0}>
      <div class="cards">
        <Card title="Tier" text={report.tier} />
        <Card title="Runtime" text={report.runtime} />
        <Card title="Kernel" text={info.isolationLevel === "strong" ? "its own" : "the host's"} />
        <Card title="Enforced" text={`${facts.length - missing} of ${facts.length}`} />
      </div>
      <Table items={facts} keyOf={({ name }) => name} columns={columnsFor(report.tier)} />
    </div>
  );
}
