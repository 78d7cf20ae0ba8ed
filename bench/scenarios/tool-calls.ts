/** Calls of an agent's tools compared with the same calls of the SDK: the overhead of the tools. */
import type { SandboxClient, Session } from "@sandkasten/sdk";
import { parseSandboxSettings, SandboxScope, sandboxTools } from "@sandkasten/tools";
import type { BenchContext, Scenario } from "../context.ts";
import { inARow, interleave, timeUs } from "../interleave.ts";
import type { Contestant } from "../interleave.ts";
import type { Series } from "../series.ts";

/** Consecutive calls, like those of a working agent. */
const IN_A_ROW = 5;
const NAME = "small.txt";
const CONTENT = "sandkasten ".repeat(93);

/** The calls that are made both ways. */
export const TOOL_CALLS = ["exec true", "write 1 KB", "read 1 KB"] as const;

export const toolCalls: Scenario = {
  name: "tool calls",
  what: "the tools of an agent in code mode beside the same calls of the SDK",
  run: measure,
};

async function measure({ quick, signal, progress, startDaemon }: BenchContext): Promise<Series[]> {
  await using daemon = await startDaemon();
  const client = daemon.sdk;
  await using scope = new SandboxScope({ client, namespace: "agent", id: "bench" });
  const tools = byTools(client, scope);
  // One sandbox for both, so only the layers above it differ.
  await tools["exec true"]();
  const [info] = await client.listSessions({ key: "agent:bench:default" });
  if (info === undefined) throw new Error("the tools have opened no sandbox");
  const sdk = bySdk(await client.getSession(info.id));
  const contestants: Record<string, Contestant> = {};
  for (const name of TOOL_CALLS) {
    contestants[`SDK, ${name}`] = inARow(IN_A_ROW, () => timeUs(sdk[name]));
    contestants[`tool, ${name}`] = inARow(IN_A_ROW, () => timeUs(tools[name]));
  }
  return await interleave(contestants, {
    scenario: toolCalls.name,
    rounds: quick ? 60 : 300,
    warmUpRounds: quick ? 30 : 100,
    signal,
    onRound: (round, rounds) => {
      if (round % 50 === 0) progress(`round ${round} of ${rounds}`);
    },
  });
}

type Calls = Readonly<Record<(typeof TOOL_CALLS)[number], () => Promise<unknown>>>;

function bySdk(session: Session): Calls {
  return {
    "exec true": () => session.exec(["true"]),
    "write 1 KB": () => session.write(NAME, CONTENT),
    "read 1 KB": async () => mustBeUnchanged(await session.readText(NAME)),
  };
}

function byTools(client: SandboxClient, agentScope: SandboxScope): Calls {
  const tools = sandboxTools(parseSandboxSettings({ mode: "code" }), { client, agentScope });
  const call = async (name: string, input: object): Promise<object> => {
    const result = await tools.find((tool) => tool.name === name)?.run(input);
    if (typeof result !== "object" || result === null) throw new Error(`there is no ${name}`);
    return result;
  };
  return {
    "exec true": () => call("sandbox_exec", { cmd: ["true"] }),
    "write 1 KB": () => call("sandbox_fs_write", { path: NAME, contents: CONTENT }),
    "read 1 KB": async () => {
      const result = await call("sandbox_fs_read", { path: NAME });
      mustBeUnchanged(Reflect.get(result, "contents"));
    },
  };
}

function mustBeUnchanged(content: unknown): void {
  if (content !== CONTENT) throw new Error("the file came back changed");
}
