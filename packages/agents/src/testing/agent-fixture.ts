/** A directory of agents, a scripted model server, and the real service over both. */
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AgentServiceClient } from "../client/index.ts";
import type { RunBody, RunEventBody } from "../client/index.ts";
import { startAgentService } from "../serve.ts";
import type { RunningAgentService, StartOptions } from "../serve.ts";
import { ModelServer } from "./model-server.ts";
import type { ChatRequest, ScriptedTurn } from "./model-server.ts";

export interface AgentFixtureOptions extends Partial<Omit<StartOptions, "dir">> {
  /** Frontmatter and template by the agent's name. */
  readonly agents?: Readonly<Record<string, string>>;
  readonly daemon?: { readonly url: string; readonly apiKey: string } | undefined;
}

/** Short pauses, so that tests of failures need not wait. */
const QUICK_RETRY = {
  maxRetries: 3,
  firstDelayMs: 5,
  maxDelayMs: 20,
  maxRetryAfterMs: 2_000,
};

/** The source of an agent with these keys. */
export function agent(yaml: string, template = 'Work.\n{{role "user"}}\n{{userInput}}'): string {
  return `---\nmodel: openai/tiny\n${yaml}\n---\n${template}\n`;
}

export class AgentFixture implements AsyncDisposable {
  readonly dir: string;
  readonly model: ModelServer;
  readonly service: RunningAgentService;
  readonly client: AgentServiceClient;

  private constructor(
    dir: string,
    model: ModelServer,
    service: RunningAgentService,
    apiKey?: string,
  ) {
    this.dir = dir;
    this.model = model;
    this.service = service;
    this.client = new AgentServiceClient({ baseUrl: service.url, apiKey });
  }

  static async start(options: AgentFixtureOptions = {}): Promise<AgentFixture> {
    const { agents = {}, daemon, env, loop, ...rest } = options;
    const dir = await mkdtemp(join(tmpdir(), "sandkasten-agents-"));
    const model = await ModelServer.start();
    await mkdir(join(dir, "agents"));
    for (const [name, source] of Object.entries(agents))
      await writeFile(join(dir, "agents", `${name}.prompt`), source);
    const service = await startAgentService({
      listen: "127.0.0.1:0",
      // Nothing listens on this port: agents without a sandbox need no daemon.
      daemonUrl: daemon?.url ?? "http://127.0.0.1:9",
      daemonApiKey: daemon?.apiKey,
      ...rest,
      dir,
      env: { ...modelVariables(model), ...env },
      loop: { retry: QUICK_RETRY, ...loop },
    });
    return new AgentFixture(dir, model, service, options.apiKey);
  }

  /** Replaces the file atomically, as careful editors do. */
  async write(name: string, source: string): Promise<void> {
    const path = join(this.dir, "agents", `${name}.prompt`);
    await writeFile(`${path}~`, source);
    await rename(`${path}~`, path);
  }

  /** Runs an agent to its end with these turns of the model. */
  async run(
    name: string,
    turns: readonly ScriptedTurn[] | ((request: ChatRequest, index: number) => ScriptedTurn),
    given: { readonly task?: string; readonly input?: unknown } = { task: "Go." },
  ): Promise<RunBody> {
    this.model.play(turns);
    return await this.client.executeAndWait(name, given);
  }

  async eventsOf(runId: string): Promise<RunEventBody[]> {
    return await Array.fromAsync(this.client.events(runId));
  }

  /** Waits for an event of an active run. */
  async until(runId: string, type: string): Promise<RunEventBody> {
    let last: RunEventBody | undefined;
    for await (const event of this.client.events(runId)) {
      if (event.type === type) return event;
      last = event;
    }
    throw new Error(`the run ended without ${type}: ${JSON.stringify(last)}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.service.close();
    await this.model[Symbol.asyncDispose]();
    await rm(this.dir, { recursive: true, force: true });
  }
}

function modelVariables(model: ModelServer): Readonly<Record<string, string>> {
  return { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: "sk-test" };
}

/** The contents of the tool messages of the last request to the model, parsed. */
export function toolResults({ requests }: ModelServer): unknown[] {
  const messages = requests.at(-1)?.body.messages ?? [];
  return messages
    .filter(({ role }) => role === "tool")
    .map(({ content }) => JSON.parse(content ?? "null") as unknown);
}
