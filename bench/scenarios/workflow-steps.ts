/** A workflow of 100 steps without models, compared with the same writes to SQLite without a workflow. */
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { AgentServiceClient } from "@sandkasten/agents/client";
import { startAgentService } from "@sandkasten/agents";
import type { BenchContext, Scenario } from "../context.ts";
import { interleave, timeUs } from "../interleave.ts";
import type { Series } from "../series.ts";

const STEPS = 100;

/** Each step computes a value from the previous one; every tenth is a condition instead. */
const WORKFLOW = `steps:
  - { id: s0, type: set, values: { n: 0 } }
${Array.from({ length: STEPS - 1 }, (_, index) => step(index + 1)).join("\n")}
`;
const TRANSFORMS = STEPS - 1 - STEPS / 10;

function step(number: number): string {
  const isSwitch = number % 10 === 5;
  const before = `steps.s${number % 10 === 6 ? number - 2 : number - 1}.output.n`;
  return isSwitch
    ? `  - { id: s${number}, type: switch, expression: "${before} >= 0", transitions: [{ condition: true, next: s${number + 1} }] }`
    : `  - { id: s${number}, type: transform, expression: "{'n': ${before} + 1}" }`;
}

export const workflowSteps: Scenario = {
  name: "workflow steps",
  what: `a workflow of ${STEPS} steps without models, over HTTP, beside the same writes to SQLite`,
  run: measure,
};

async function measure({ scratchDir, quick, signal, progress }: BenchContext): Promise<Series[]> {
  const dir = join(scratchDir, "workflows-of-bench");
  await mkdir(join(dir, "workflows"), { recursive: true });
  await writeFile(join(dir, "workflows", "steps.yaml"), WORKFLOW);
  // Nothing here uses the daemon.
  const daemonUrl = "http://127.0.0.1:9";
  await using service = await startAgentService({ dir, listen: "127.0.0.1:0", daemonUrl, env: {} });
  const client = new AgentServiceClient({ baseUrl: service.url });
  using database = plainDatabase(join(dir, "plain.db"));
  const perStep = async (work: () => Promise<void>): Promise<number> =>
    (await timeUs(work)) / STEPS;
  const series = await interleave(
    {
      "SQLite alone, one step": () => perStep(() => writeSteps(database)),
      "workflow, one step": () => perStep(() => runSteps(client)),
    },
    {
      scenario: workflowSteps.name,
      rounds: quick ? 10 : 60,
      warmUpRounds: quick ? 3 : 10,
      signal,
      onRound: (round, rounds) => {
        if (round % 10 === 0) progress(`round ${round} of ${rounds}`);
      },
    },
  );
  await rm(dir, { recursive: true, force: true });
  return series;
}

async function runSteps(client: AgentServiceClient): Promise<void> {
  const { status, output, error } = await client.runWorkflowAndWait("steps");
  if (status !== "succeeded" || JSON.stringify(output) !== `{"n":${TRANSFORMS}}`)
    throw new Error(`the workflow ended ${status}: ${error?.message ?? JSON.stringify(output)}`);
}

function plainDatabase(path: string): DatabaseSync {
  const database = new DatabaseSync(path);
  database.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE steps (run INTEGER, step TEXT, status TEXT, output TEXT, PRIMARY KEY (run, step)) STRICT;
    CREATE TABLE events (number INTEGER PRIMARY KEY, data TEXT) STRICT;
  `);
  return database;
}

let runs = 0;

/** The minimum cost of a step that is stored before and after: two transactions of two writes. */
async function writeSteps(database: DatabaseSync): Promise<void> {
  const run = ++runs;
  const begin = database.prepare("INSERT INTO steps VALUES (?, ?, 'running', NULL)");
  const end = database.prepare(
    "UPDATE steps SET status = 'succeeded', output = ? WHERE run = ? AND step = ?",
  );
  const event = database.prepare("INSERT INTO events (data) VALUES (?)");
  const written = (write: () => void, type: string): void => {
    database.exec("BEGIN IMMEDIATE");
    write();
    event.run(JSON.stringify({ type, run, at: new Date().toISOString() }));
    database.exec("COMMIT");
  };
  for (let step = 0, output = { n: 0 }; step < STEPS; step++) {
    const id = `s${step}`;
    written(() => begin.run(run, id), "step_started");
    output = await Promise.resolve({ n: output.n + 1 });
    written(() => end.run(JSON.stringify(output), run, id), "step_ended");
  }
}
