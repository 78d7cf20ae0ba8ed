/** A client of the agent service: requests, and events that survive broken connections. */
import { AgentServiceError, connectionFailed, errorFromAnswer } from "./agent-service-error.ts";
import { readEvents } from "./read-events.ts";
import type {
  AgentDetails,
  AgentSummary,
  EventPage,
  RunBody,
  RunEventBody,
  RunPage,
  RunStatus,
  WorkflowDetails,
  WorkflowRunBody,
  WorkflowRunPage,
  WorkflowRunStatus,
  WorkflowSummary,
} from "./wire-types.ts";

export interface AgentServiceClientOptions {
  /** Default: `http://127.0.0.1:8587`. */
  readonly baseUrl?: string | undefined;
  readonly apiKey?: string | undefined;
  /** Used instead of the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface ExecuteOptions extends CallOptions {
  readonly task?: string | undefined;
  readonly input?: unknown;
}

export interface ListRunsOptions<Status> extends CallOptions {
  readonly status?: Status | undefined;
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}

export interface FollowOptions extends CallOptions {
  /** Only events after this `seq`. */
  readonly cursor?: number | undefined;
}

export interface DecisionOptions extends CallOptions {
  /** Which step to decide, if several are waiting. */
  readonly stepId?: string | undefined;
  readonly comment?: string | undefined;
}

const DEFAULT_URL = "http://127.0.0.1:8587";
/** How often in a row a connection may break without an event in between. */
const MAX_BREAKS = 6;
const FIRST_PAUSE_MS = 100;

type Query = Readonly<Record<string, string | number | boolean | undefined>>;

export class AgentServiceClient {
  readonly baseUrl: string;
  readonly #apiKey: string | undefined;
  readonly #fetch: typeof globalThis.fetch;

  constructor({ baseUrl, apiKey, fetch }: AgentServiceClientOptions = {}) {
    this.baseUrl = (baseUrl ?? DEFAULT_URL).replace(/\/+$/, "");
    this.#apiKey = apiKey;
    this.#fetch = fetch ?? ((input, init) => globalThis.fetch(input, init));
  }

  /** Throws if no agent service answers at the address. */
  async health(options: CallOptions = {}): Promise<void> {
    await this.#json("GET", "/healthz", { signal: options.signal });
  }

  async agents(options: CallOptions = {}): Promise<readonly AgentSummary[]> {
    const { agents } = await this.#json<{ agents: AgentSummary[] }>("GET", "/v1/agents", options);
    return agents;
  }

  /** By file name or `metadata.name`. */
  async agent(name: string, options: CallOptions = {}): Promise<AgentDetails> {
    return await this.#json("GET", path`/v1/agents/${name}`, options);
  }

  /** Starts a run and returns its id at once. Use `events` to follow it. */
  async execute(agentName: string, options: ExecuteOptions = {}): Promise<string> {
    const { run_id: runId } = await this.#json<{ run_id: string }>("POST", "/execute", {
      body: { agent_name: agentName, task: options.task, input: options.input },
      signal: options.signal,
    });
    return runId;
  }

  /**
   * Runs an agent to its end, however long it takes. A failed run is a result, too: check `status`.
   * Aborting the wait does not cancel the run.
   */
  async executeAndWait(agentName: string, options: ExecuteOptions = {}): Promise<RunBody> {
    const { signal } = options;
    const id = await this.execute(agentName, options);
    // Follows events, because proxies often cut off a single request that waits for minutes.
    for await (const { type } of this.events(id, { signal })) if (type === "run_ended") break;
    return await this.run(id, { signal });
  }

  async run(id: string, options: CallOptions = {}): Promise<RunBody> {
    return await this.#json("GET", path`/v1/runs/${id}`, options);
  }

  /** One page, newest first. */
  async runs(
    options: ListRunsOptions<RunStatus> & { readonly agent?: string | undefined } = {},
  ): Promise<RunPage> {
    const { signal, ...query } = options;
    return await this.#json("GET", "/v1/runs", { query, signal });
  }

  /**
   * Yields each event once, as it arrives, until the run has ended. Reconnects after broken
   * connections.
   */
  events(id: string, options: FollowOptions = {}): AsyncGenerator<RunEventBody, void, undefined> {
    return this.#follow(path`/v1/runs/${id}/events`, options);
  }

  /** One page of events, without waiting for more. */
  async eventPage(id: string, options: FollowOptions = {}): Promise<EventPage> {
    return await this.#json("GET", path`/v1/runs/${id}/events`, {
      query: { cursor: options.cursor },
      signal: options.signal,
    });
  }

  /** The current state of the run; after a cancellation, it may take a moment to end. */
  async cancel(id: string, options: CallOptions = {}): Promise<RunBody> {
    return await this.#json("POST", path`/v1/runs/${id}/cancel`, options);
  }

  async workflows(options: CallOptions = {}): Promise<readonly WorkflowSummary[]> {
    const { workflows } = await this.#json<{ workflows: WorkflowSummary[] }>(
      "GET",
      "/v1/workflows",
      options,
    );
    return workflows;
  }

  async workflow(
    id: string,
    options: CallOptions & { readonly graph?: boolean | undefined } = {},
  ): Promise<WorkflowDetails> {
    return await this.#json("GET", path`/v1/workflows/${id}`, {
      query: { graph: options.graph === true ? "mermaid" : undefined },
      signal: options.signal,
    });
  }

  /** Starts a workflow and returns the run's id at once. */
  async runWorkflow(
    id: string,
    options: CallOptions & { readonly input?: unknown } = {},
  ): Promise<string> {
    const answer = await this.#json<{ run_id: string }>("POST", path`/v1/workflows/${id}/runs`, {
      body: { input: options.input },
      signal: options.signal,
    });
    return answer.run_id;
  }

  /** Runs a workflow to its end, or until it waits for a person. */
  async runWorkflowAndWait(
    id: string,
    options: CallOptions & { readonly input?: unknown } = {},
  ): Promise<WorkflowRunBody> {
    return await this.#json("POST", path`/v1/workflows/${id}/runs`, {
      query: { wait: true },
      body: { input: options.input },
      signal: options.signal,
    });
  }

  /** One page, newest first. */
  async workflowRuns(
    options: ListRunsOptions<WorkflowRunStatus> & { readonly workflow?: string | undefined } = {},
  ): Promise<WorkflowRunPage> {
    const { signal, ...query } = options;
    return await this.#json("GET", "/v1/workflow-runs", { query, signal });
  }

  async workflowRun(id: string, options: CallOptions = {}): Promise<WorkflowRunBody> {
    return await this.#json("GET", path`/v1/workflow-runs/${id}`, options);
  }

  /**
   * Yields each event once, as it arrives, until the run has ended. Reconnects after broken
   * connections.
   */
  workflowEvents(
    id: string,
    options: FollowOptions = {},
  ): AsyncGenerator<RunEventBody, void, undefined> {
    return this.#follow(path`/v1/workflow-runs/${id}/events`, options);
  }

  async approve(id: string, options: DecisionOptions = {}): Promise<WorkflowRunBody> {
    return await this.#decide(path`/v1/workflow-runs/${id}/approve`, options);
  }

  async reject(id: string, options: DecisionOptions = {}): Promise<WorkflowRunBody> {
    return await this.#decide(path`/v1/workflow-runs/${id}/reject`, options);
  }

  async cancelWorkflow(id: string, options: CallOptions = {}): Promise<WorkflowRunBody> {
    return await this.#json("POST", path`/v1/workflow-runs/${id}/cancel`, options);
  }

  /** Continues a run that needs attention. */
  async resume(id: string, options: CallOptions = {}): Promise<WorkflowRunBody> {
    return await this.#json("POST", path`/v1/workflow-runs/${id}/resume`, options);
  }

  async #decide(where: string, options: DecisionOptions): Promise<WorkflowRunBody> {
    return await this.#json("POST", where, {
      body: { step_id: options.stepId, comment: options.comment },
      signal: options.signal,
    });
  }

  async #json<Body>(
    method: "GET" | "POST",
    where: string,
    call: { readonly query?: Query; readonly body?: object } & CallOptions,
  ): Promise<Body> {
    const response = await this.#request(method, where, { ...call, accept: "application/json" });
    try {
      return (await response.json()) as Body;
    } catch (error) {
      call.signal?.throwIfAborted();
      throw connectionFailed(this.baseUrl, error);
    }
  }

  async #request(
    method: "GET" | "POST",
    where: string,
    call: { readonly query?: Query; readonly body?: object; readonly accept: string } & CallOptions,
  ): Promise<Response> {
    const url = new URL(this.baseUrl + where);
    for (const [name, value] of Object.entries(call.query ?? {}))
      if (value !== undefined) url.searchParams.set(name, String(value));
    const headers = new Headers({ accept: call.accept });
    if (this.#apiKey !== undefined) headers.set("authorization", `Bearer ${this.#apiKey}`);
    if (method === "POST") headers.set("content-type", "application/json");
    let response: Response;
    try {
      response = await this.#fetch(url, {
        method,
        headers,
        // SECURITY: a redirect could send tasks and the key to another host. Guarded by
        // agent-service-client.test.ts.
        redirect: "manual",
        ...(method === "POST" && { body: JSON.stringify(call.body ?? {}) }),
        ...(call.signal !== undefined && { signal: call.signal }),
      });
    } catch (error) {
      call.signal?.throwIfAborted();
      throw connectionFailed(this.baseUrl, error);
    }
    if (!response.ok) throw await errorFromAnswer(response);
    return response;
  }

  async *#follow(
    where: string,
    { cursor = 0, signal }: FollowOptions,
  ): AsyncGenerator<RunEventBody, void, undefined> {
    let last = cursor;
    for (let breaks = 0; ;) {
      try {
        const response = await this.#request("GET", where, {
          query: { cursor: last },
          accept: "text/event-stream",
          signal,
        });
        if (response.body === null) throw new Error("the answer has no body");
        for await (const event of readEvents(response.body)) {
          if (event.seq <= last) continue;
          last = event.seq;
          breaks = 0;
          yield event;
          if (event.type === "run_ended" || event.type === "workflow_ended") return;
        }
        // The service closes the stream at once if the run had ended before the cursor.
        const page = await this.#json<EventPage>("GET", where, { query: { cursor: last }, signal });
        if (page.done && page.events.length === 0) return;
      } catch (error) {
        signal?.throwIfAborted();
        const isRefused = error instanceof AgentServiceError && error.code !== "CONNECTION_FAILED";
        breaks += 1;
        if (isRefused || breaks > MAX_BREAKS)
          throw error instanceof AgentServiceError ? error : connectionFailed(this.baseUrl, error);
        const longestMs = FIRST_PAUSE_MS * 2 ** breaks;
        await pause(longestMs * (0.5 + Math.random() / 2), signal);
      }
    }
  }
}

/** Builds a URL path from literal parts and encoded values. */
function path(parts: TemplateStringsArray, ...values: readonly string[]): string {
  return String.raw({ raw: parts }, ...values.map((value) => encodeURIComponent(value)));
}

async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  signal?.addEventListener("abort", () => resolve(), { once: true });
  await promise;
  clearTimeout(timer);
  signal?.throwIfAborted();
}
