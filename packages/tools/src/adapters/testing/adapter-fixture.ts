/** What the suites of all adapters share: one daemon, and a model that makes every mistake. */
import { expect } from "vitest";
import {
  ScriptedModel,
  type ToolRequest,
} from "../../../../../tests/support/scripted-model/scripted-model.ts";
import type { SandboxTool } from "../../index.ts";
import type { ToolFixture } from "../../testing/tool-fixture.ts";

export { ScriptedModel } from "../../../../../tests/support/scripted-model/scripted-model.ts";

/** A daemon that is started before the first test of a file, and the tools of agents on it. */
export type Fixture = () => ToolFixture;

/** The tools of an agent in code mode, which has a sandbox when it first needs one. */
export function codeTools(fixture: Fixture): readonly SandboxTool[] {
  return fixture().agent({ mode: "code", runtime: "python" }).tools;
}

const TOO_LONG = "x".repeat(1_100_000);
/** An argument of 10 MB, for the tools that frameworks bring themselves. */
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
  /** What the framework tells the model of a tool that does not exist. */
  readonly unknownTool: RegExp;
  /** Of arguments that are not JSON, where the API can carry them. */
  readonly malformed?: RegExp;
}

/**
 * The model makes each mistake once and must be told of each in a way that it can act on. Then it does
 * the right thing, which must work. Resolves with all that it was told.
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
  // What only programs need costs no tokens.
  expect(last).not.toContain("session_id");
  return model.answers;
}

/** What a mistake costs the model is a sentence, not its own argument back. */
export function expectShort(told: string | undefined, says: RegExp): void {
  expect(told?.slice(0, 2000)).toMatch(says);
  expect(told?.length).toBeLessThan(2000);
}

/** When the run of an agent is aborted, so is the command that it waits for. */
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
