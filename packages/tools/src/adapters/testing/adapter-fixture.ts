/** What the suites of all adapters share: one daemon, and a model that makes every mistake. */
import { expect } from "vitest";
import {
  ScriptedModel,
  type ToolRequest,
} from "../../../../../tests/support/scripted-model/scripted-model.ts";
import type { SandboxTool } from "../../index.ts";
import type { ToolFixture } from "../../testing/tool-fixture.ts";

export { ScriptedModel } from "../../../../../tests/support/scripted-model/scripted-model.ts";

/** A daemon that starts before the first test of a file, and agents' tools on it. */
export type Fixture = () => ToolFixture;

/** The tools of an agent in code mode, whose sandbox is created on first use. */
export function codeTools(fixture: Fixture): readonly SandboxTool[] {
  return fixture().agent({ mode: "code", runtime: "python" }).tools;
}

const TOO_LONG = "x".repeat(1_100_000);
/** A 10 MB argument, for the tools that frameworks provide themselves. */
export const HUGE = "x".repeat(10_000_000);

const MISTAKES: readonly (ToolRequest & { readonly says: RegExp })[] = [
  { name: "sandbox_exec", input: { cmd: 42 }, says: /`cmd`: expected string/ },
  {
    name: "sandbox_exec",
    input: { comand: "ls" },
    says: /`comand` is not a known name; the nearest known name is `command`/,
  },
  {
    name: "sandbox_exec",
    input: { cmd: TOO_LONG },
    says: /is too long: at most 1048576 bytes.*sandbox_fs_write/,
  },
  { name: "sandbox_fs_read", input: { path: "missing.txt" }, says: /missing\.txt/ },
];

export interface OwnMistakes {
  /** What the framework tells the model about a tool that does not exist. */
  readonly unknownTool: RegExp;
  /** The same about arguments that are not JSON, if the API can carry them. */
  readonly malformed?: RegExp;
}

/**
 * The model makes each mistake once and must get an explanation of each that it can act on. Then it
 * does the right thing, which must work. Resolves with everything that it was told.
 */
export async function expectRecovery(
  run: (model: ScriptedModel) => Promise<unknown>,
  { unknownTool, malformed }: OwnMistakes,
): Promise<ScriptedModel["answers"]> {
  const mistakes = [
    { name: "sandbox_teleport", input: { to: "moon" }, says: unknownTool },
    ...(malformed === undefined
      ? []
      : [{ name: "sandbox_exec", input: '{"cmd": "ls', says: malformed }]),
    ...MISTAKES,
  ];
  const right = { name: "sandbox_exec", input: { cmd: "echo recovered" } };
  await using model = await ScriptedModel.start([...mistakes, right]);
  await run(model);
  // A framework that cannot read the schema would show an empty one.
  expect(JSON.stringify(model.requests[0])).toContain("Shell text (");
  expect(model.answers).toHaveLength(mistakes.length + 1);
  for (const [index, { says }] of mistakes.entries()) {
    expectShort(model.answers[index]?.output, says);
  }
  const last = model.answers.at(-1)?.output;
  expect(last).toContain("recovered");
  // Fields that only programs need cost no tokens.
  expect(last).not.toContain("session_id");
  return model.answers;
}

/** A mistake costs the model a sentence, and does not return its own argument. */
export function expectShort(told: string | undefined, says: RegExp): void {
  expect(told?.slice(0, 2000)).toMatch(says);
  expect(told?.length).toBeLessThan(2000);
}

/** When an agent's run is aborted, so is the command that it waits for. */
export async function expectCancelled(
  fixture: Fixture,
  run: (
    model: ScriptedModel,
    tools: readonly SandboxTool[],
    signal: AbortSignal,
  ) => Promise<unknown>,
): Promise<void> {
  const agent = fixture().agent({ mode: "code", runtime: "python" });
  await using model = await ScriptedModel.start([
    { name: "sandbox_exec", input: { cmd: "sleep 1000" } },
  ]);
  const abort = new AbortController();
  const ended = run(model, agent.tools, abort.signal).then(
    () => "over",
    () => "over",
  );
  const newest = async () => {
    const [held] = agent.scope.heldSessions();
    for await (const exec of held?.session.execs() ?? []) return exec;
    return undefined;
  };
  await expect.poll(newest).toMatchObject({ status: "running" });
  abort.abort();
  await expect.poll(newest).toMatchObject({ endReason: "cancelled" });
  expect(await ended).toBe("over");
}
