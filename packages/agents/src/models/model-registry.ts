/** Finds the Genkit model for `PROVIDER/NAME`, or says which variable to set. */
import type {
  GenerateRequest,
  GenerateResponseChunkData,
  GenerateResponseData,
} from "genkit/model";
import type { GenkitPluginV2 } from "genkit/plugin";
import { AgentRunError } from "../runs/agent-executor.ts";
import { suggestedName } from "../suggested-name.ts";
import type { TurnLimits } from "./chat-answer.ts";
import { askChatModel, OPENAI_URL } from "./chat-completions.ts";
import type { ModelCall } from "./chat-completions.ts";
import { loadGenkit } from "./load-genkit.ts";
import { toModelFailure } from "./model-failure.ts";
import { playScript } from "./scripted-model.ts";

/** A model that answers one turn. Throws ModelFailure. */
export interface Model {
  readonly name: string;
  /** Whether nothing is streamed while the model writes the arguments of a tool call. */
  readonly isSilentInCalls: boolean;
  ask(request: GenerateRequest, options: AskOptions): Promise<GenerateResponseData>;
}

export interface AskOptions {
  readonly onChunk: (chunk: GenerateResponseChunkData) => void;
  readonly signal: AbortSignal;
}

export type Variables = Readonly<Record<string, string | undefined>>;

export interface ModelRegistryOptions {
  /** The variables that the providers' SDKs read. */
  readonly env: Variables;
  readonly limits?: TurnLimits | undefined;
}

const PROVIDERS = ["openai", "anthropic", "googleai", "scripted"] as const;
const GOOGLE_KEYS = ["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_API_KEY"] as const;

type ModelAction = Awaited<ReturnType<typeof createModel>>;

export class ModelRegistry {
  readonly #options: ModelRegistryOptions;
  readonly #models = new Map<string, Promise<ModelAction>>();

  constructor(options: ModelRegistryOptions) {
    this.#options = options;
  }

  /** Throws AgentRunError if the model is unknown or not configured. Sends no request yet. */
  async get(name: string): Promise<Model> {
    this.check(name);
    let action = this.#models.get(name);
    if (action === undefined) {
      action = createModel(name, this.#options);
      this.#models.set(name, action);
      // A failure to load must not be cached.
      action.catch(() => this.#models.delete(name));
    }
    const model = await action;
    return {
      name,
      isSilentInCalls: !/^(?:openai|scripted)\//.test(name),
      ask: async (request, { onChunk, signal }) => {
        try {
          return withMessage(await model(request, { onChunk, abortSignal: signal }));
        } catch (error) {
          throw toModelFailure(error, keysIn(this.#options.env));
        }
      },
    };
  }

  /** Throws AgentRunError if a run with this model could not start. */
  check(name: string): void {
    const problem = configurationProblem(name, this.#options.env);
    if (problem !== undefined) throw new AgentRunError("MODEL_NOT_CONFIGURED", problem);
  }
}

function keysIn(env: Variables): (string | undefined)[] {
  return ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", ...GOOGLE_KEYS].map((name) => env[name]);
}

/** Some plugins still return a list of candidates. */
function withMessage(response: GenerateResponseData): GenerateResponseData {
  if (response.message !== undefined) return response;
  const [first] = response.candidates ?? [];
  if (first === undefined) return response;
  const { message, finishReason, finishMessage } = first;
  return { ...response, message, finishReason, finishMessage };
}

function configurationProblem(name: string, env: Variables): string | undefined {
  const [provider = ""] = name.split("/", 1);
  const isSet = (variable: string): boolean => (env[variable] ?? "") !== "";
  switch (provider) {
    case "openai":
      return isSet("OPENAI_API_KEY") || isSet("OPENAI_BASE_URL")
        ? undefined
        : `The model ${name} needs a key: set OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server of your own.`;
    case "anthropic":
      return isSet("ANTHROPIC_API_KEY")
        ? undefined
        : `The model ${name} needs a key: set ANTHROPIC_API_KEY.`;
    case "googleai":
      return GOOGLE_KEYS.some(isSet)
        ? undefined
        : `The model ${name} needs a key: set GEMINI_API_KEY (or GOOGLE_API_KEY).`;
    case "scripted":
      return undefined;
    default:
      return unknownProvider(name, provider);
  }
}

function unknownProvider(name: string, provider: string): string {
  const suggestion = suggestedName(provider, PROVIDERS);
  const hint = suggestion === undefined ? "" : ` Did you mean ${suggestion}?`;
  const known = PROVIDERS.map((one) => `${one}/NAME`).join(", ");
  return `The model ${name} has an unknown provider: use ${known}.${hint}`;
}

async function createModel(name: string, { env, limits }: ModelRegistryOptions) {
  const [provider = "", ...rest] = name.split("/");
  const local = rest.join("/");
  switch (provider) {
    case "openai": {
      const options = {
        baseUrl: (env["OPENAI_BASE_URL"] || OPENAI_URL).replace(/\/+$/, ""),
        apiKey: env["OPENAI_API_KEY"] || undefined,
        headers: {
          ...(env["OPENAI_ORG_ID"] && { "openai-organization": env["OPENAI_ORG_ID"] }),
          ...(env["OPENAI_PROJECT_ID"] && { "openai-project": env["OPENAI_PROJECT_ID"] }),
        },
        limits,
      };
      return await ownModel(name, (request, call) => askChatModel(local, options, request, call));
    }
    case "anthropic": {
      const { anthropic } = await import("@genkit-ai/anthropic");
      return await modelOfPlugin(anthropic({ apiKey: env["ANTHROPIC_API_KEY"] ?? "" }), name);
    }
    case "googleai": {
      const { googleAI } = await import("@genkit-ai/google-genai");
      const key = GOOGLE_KEYS.map((variable) => env[variable]).find((value) => value);
      const baseUrl = env["GOOGLE_GEMINI_BASE_URL"] || undefined;
      return await modelOfPlugin(
        googleAI({ apiKey: key ?? "", ...(baseUrl && { baseUrl }) }),
        name,
      );
    }
    default:
      return await ownModel(name, (request, call) => Promise.resolve(playScript(request, call)));
  }
}

async function ownModel(
  name: string,
  ask: (request: GenerateRequest, call: ModelCall) => Promise<GenerateResponseData>,
) {
  const { genkit } = await loadGenkit();
  const supports = { multiturn: true, tools: true, systemRole: true, media: true };
  return genkit({}).defineModel(
    { name, apiVersion: "v2", supports },
    async (request, { sendChunk, abortSignal }) => await ask(request, { sendChunk, abortSignal }),
  );
}

async function modelOfPlugin(plugin: GenkitPluginV2, name: string) {
  const { genkit } = await loadGenkit();
  const { registry } = genkit({ plugins: [plugin] });
  const action = await registry.lookupAction(`/model/${name}`);
  if (action === undefined)
    throw new AgentRunError("MODEL_NOT_CONFIGURED", `There is no model ${name}.`);
  return action as unknown as Awaited<ReturnType<typeof ownModel>>;
}
