/** The real service with agents, workflows and a scripted model. */
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { WorkflowRunBody } from "../../client/index.ts";
import { AgentFixture } from "../../testing/agent-fixture.ts";
import type { AgentFixtureOptions } from "../../testing/agent-fixture.ts";
import type { ChatRequest, ScriptedTurn } from "../../testing/model-server.ts";

export interface WorkflowFixtureOptions extends AgentFixtureOptions {
  /** Files of the folder `workflows`, by name. */
  readonly workflows: Readonly<Record<string, string>>;
}

export class WorkflowFixture implements AsyncDisposable {
  readonly agents: AgentFixture;

  private constructor(agents: AgentFixture) {
    this.agents = agents;
  }

  static async start({ workflows, ...options }: WorkflowFixtureOptions): Promise<WorkflowFixture> {
    const fixture = new WorkflowFixture(await AgentFixture.start(options));
    for (const [name, source] of Object.entries(workflows)) await fixture.write(name, source);
    return fixture;
  }

  get client(): AgentFixture["client"] {
    return this.agents.client;
  }

  /** Replaces a workflow's file atomically, or removes it. */
  async write(name: string, source: string | undefined): Promise<void> {
    const path = join(this.agents.dir, "workflows", name);
    if (source === undefined) return await rm(path);
    await mkdir(join(this.agents.dir, "workflows"), { recursive: true });
    await writeFile(`${path}~`, source);
    await rename(`${path}~`, path);
  }

  /** The run once it meets the condition. */
  async until(
    runId: string,
    isWanted: (run: WorkflowRunBody) => boolean,
  ): Promise<WorkflowRunBody> {
    for (;;) {
      const run = await this.client.workflowRun(runId);
      if (isWanted(run)) return run;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agents[Symbol.asyncDispose]();
  }
}

/**
 * Answers each agent by its own script: an agent is identified by the first line of its prompt, and
 * its turn by how many answers its model has given in this conversation.
 */
export function byAgent(
  scripts: Readonly<
    Record<string, readonly ScriptedTurn[] | ((task: string, turn: number) => ScriptedTurn)>
  >,
): (request: ChatRequest) => ScriptedTurn {
  return ({ messages }) => {
    const [first] = messages;
    const name = (first?.content ?? "").trim().split("\n")[0] ?? "";
    const script = scripts[name];
    if (script === undefined) throw new Error(`there is no script for ${JSON.stringify(name)}`);
    const turn = messages.filter(({ role }) => role === "assistant").length;
    const task = messages.findLast(({ role }) => role === "user")?.content?.trim() ?? "";
    return typeof script === "function"
      ? script(task, turn)
      : (script[turn] ?? script.at(-1) ?? { text: "" });
  };
}

/** An agent that `byAgent` identifies by its name. */
export function namedAgent(name: string, yaml = ""): string {
  return `---\nmodel: openai/tiny\n${yaml}\n---\n{{role "system"}}\n${name}\n{{role "user"}}\n{{userInput}}\n`;
}
