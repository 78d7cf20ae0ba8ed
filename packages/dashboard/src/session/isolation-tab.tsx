/** How well the session is isolated, as measured inside it. */
import type { JSX } from "preact";
import { Card } from "../parts/card.tsx";
import { Failure } from "../parts/notice.tsx";
import { Status } from "../parts/status.tsx";
import { useLoaded } from "../parts/use-loaded.ts";
import type { TabProps } from "./tab-props.ts";

export function IsolationTab({ session, info }: TabProps): JSX.Element {
  const { value: report, failure } = useLoaded(
    (signal) => session.isolation({ signal }),
    [session],
  );
  if (report === undefined)
    return failure === undefined ? <p class="empty">Measuring…</p> : <Failure of={failure} />;
  const missing = report.facts.filter(({ enforced }) => !enforced).length;
  return (
    <div class="scroll" tabIndex={0}>
      <div class="cards">
        <Card title="Tier" text={report.tier} />
        <Card title="Runtime" text={report.runtime} />
        <Card title="Kernel" text={info.isolationLevel === "strong" ? "its own" : "the host's"} />
        <Card
          title="Measures"
          text={missing === 0 ? `all ${report.facts.length}` : `${missing} missing`}
        />
      </div>
      <table class="plain-table">
        <thead>
          <tr>
            <th scope="col">Measure</th>
            <th scope="col">State</th>
            <th scope="col">Measured</th>
          </tr>
        </thead>
        <tbody>
          {report.facts.map(({ name, enforced, measured }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>
                <Status of={enforced ? "enforced" : "missing"} />
              </td>
              <td class="muted">{measured}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
