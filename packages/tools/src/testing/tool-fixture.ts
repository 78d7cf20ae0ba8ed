/** A real daemon, and agents' tools on it. */
import { SandboxClient } from "@sandkasten/sdk";
import { TestDaemon, type TestDaemonOptions } from "../../../../tests/support/test-daemon.ts";
import type { CloseOutput } from "../code/close.ts";
import type { ExecReadOutput } from "../code/exec-read.ts";
import type { ExecWaitOutput } from "../code/exec-wait.ts";
import type { ExecOutput } from "../code/exec.ts";
import type { FsDeleteOutput } from "../code/fs-delete.ts";
import type { FsListOutput } from "../code/fs-list.ts";
import type { FsReadOutput } from "../code/fs-read.ts";
import type { FsWriteOutput } from "../code/fs-write.ts";
import type { OpenOutput } from "../code/open.ts";
import type { PublishFileOutput } from "../code/publish-file.ts";
import type { StageFileOutput } from "../code/stage-file.ts";
import type { RunOutput } from "../compute/run-schema.ts";
import {
  DEFAULT_POLICY,
  parseSandboxSettings,
  type SandboxPolicy,
  SandboxScope,
  type SandboxTool,
  type SandboxToolContext,
  sandboxTools,
  type ToolCall,
} from "../index.ts";

interface Outputs {
  readonly sandbox_run: RunOutput;
  readonly sandbox_open: OpenOutput;
  readonly sandbox_exec: ExecOutput;
  readonly sandbox_exec_read: ExecReadOutput;
  readonly sandbox_exec_wait: ExecWaitOutput;
  readonly sandbox_fs_write: FsWriteOutput;
  readonly sandbox_fs_read: FsReadOutput;
  readonly sandbox_fs_list: FsListOutput;
  readonly sandbox_fs_delete: FsDeleteOutput;
  readonly sandbox_close: CloseOutput;
  readonly sandbox_stage_file: StageFileOutput;
  readonly sandbox_publish_file: PublishFileOutput;
}

/** An agent's tools, called by name. Their results are checked against their own schemas. */
export class TestAgent {
  readonly tools: readonly SandboxTool[];
  readonly scope: SandboxScope;

  constructor(tools: readonly SandboxTool[], scope: SandboxScope) {
    this.tools = tools;
    this.scope = scope;
  }

  tool(name: keyof Outputs): SandboxTool {
    const found = this.tools.find((tool) => tool.name === name);
    if (found === undefined) throw new Error(`the agent has no tool ${name}`);
    return found;
  }

  async call<Name extends keyof Outputs>(
    name: Name,
    input: unknown = {},
    call?: ToolCall,
  ): Promise<Outputs[Name]> {
    const tool = this.tool(name);
    return tool.output.parse(await tool.run(input, call)) as Outputs[Name];
  }
}

export interface AgentOptions extends Partial<Omit<SandboxToolContext, "policy">> {
  readonly policy?: Partial<SandboxPolicy>;
}

export class ToolFixture implements AsyncDisposable {
  readonly daemon: TestDaemon;
  readonly client: SandboxClient;
  readonly #scopes: SandboxScope[] = [];

  private constructor(daemon: TestDaemon) {
    this.daemon = daemon;
    this.client = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
  }

  static async start(options?: TestDaemonOptions): Promise<ToolFixture> {
    return new ToolFixture(await TestDaemon.start(options));
  }

  scope(
    id: string,
    namespace: "agent" | "workflow" = "agent",
    leaseSeconds?: number,
  ): SandboxScope {
    const scope = new SandboxScope({ client: this.client, namespace, id, leaseSeconds });
    this.#scopes.push(scope);
    return scope;
  }

  /** An agent with these settings, in a separate run unless specified otherwise. */
  agent(settings: unknown, options: AgentOptions = {}): TestAgent {
    const { client } = this;
    const { agentScope = this.scope(`run-${crypto.randomUUID()}`), policy, ...rest } = options;
    const context: SandboxToolContext = {
      client,
      agentScope,
      policy: { ...DEFAULT_POLICY, ...policy },
      ...rest,
    };
    return new TestAgent(sandboxTools(parseSandboxSettings(settings), context), agentScope);
  }

  async statusOf(id: string): Promise<string> {
    return (await this.client.getSession(id)).status;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#scopes.map((scope) => scope.close()));
    await this.daemon[Symbol.asyncDispose]();
  }
}
