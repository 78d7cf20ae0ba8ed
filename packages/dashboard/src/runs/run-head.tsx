/** The header of agent and workflow runs: name, status, and the link back. */
import type { AgentServiceClient } from "@sandkasten/agents/client";
import type { ComponentChildren, JSX } from "preact";
import { Icon } from "../parts/icons.tsx";
import { Status } from "../parts/status.tsx";
import { linkTo } from "../routing.ts";

export interface RunProps {
  readonly agents: AgentServiceClient;
  readonly id: string;
  readonly onChange: () => void;
}

export function RunHead(props: {
  readonly name: string;
  readonly status: string;
  /** Buttons. */
  readonly children: ComponentChildren;
}): JSX.Element {
  const { name, status, children } = props;
  return (
    <header class="run-head">
      <h2>{name}</h2>
      <Status of={status} />
      {children}
      <a class="button plain" href={linkTo("runs")} aria-label="Close the run">
        <Icon name="cross" />
      </a>
    </header>
  );
}
