/** Many concurrent agent runs, compared with the same calls of the SDK: the overhead of the layers above it. */
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { AgentServiceClient } from "@sandkasten/agents/client";
import { startAgentService } from "@sandkasten/agents";
import type { BenchDaemon } from "../bench-daemon.ts";
import type { BenchContext, Scenario } from "../context.ts";
import { timeUs } from "../interleave.ts";
import type { Series } from "../series.ts";

const AT_ONCE = 50;
const QUICK_AT_ONCE = 10;
const ROUNDS = 5;
const QUICK_ROUNDS = 2;
const LONE_RUNS = 10;

const PROGRAM = "echo hello\n";
/** The built-in model, so only our own code is measured. */
const AGENT = `---
model: scripted/bench
sandbox: { mode: code }
config:
  script:
    - { tool: sandbox_fs_write, input: { path: hello.sh, content: "${PROGRAM.trim()}" } }
    - { tool: sandbox_exec, input: { cmd: [sh, hello.sh] } }
    - "It printed {{result.stdout}}"
---
Work.
`;

export const agentRuns: Scenario = {
  name: "agent runs",
  what: `${AT_ONCE} agent runs at once: each opens a sandbox, writes a file, runs it and answers`,
  run: measure,
};

async function measure(context: BenchContext): Promise<Series[]> {
  const count = context.quick ? QUICK_AT_ONCE : AT_ONCE;
  const dir = join(context.scratchDir, "agents-of-bench");
  await mkdir(join(dir, "agents"), { recursive: true });
  await writeFile(join(dir, "agents", "worker.prompt"), AGENT);
  await using daemon = await context.startDaemon({
    QUOTAS_MAX_SESSIONS: `${count * 2 + 10}`,
  });
  const { url, apiKey } = daemon.address;
  await using service = await startAgentService({
    dir,
    listen: "127.0.0.1:0",
    daemonUrl: url,
    daemonApiKey: apiKey,
    env: {},
  });
  const client = new AgentServiceClient({ baseUrl: service.url });
  // Loads the model once, which must not be measured.
  await runAgent(client);
  const [lone, loneSdk, all, allSdk]: number[][] = [[], [], [], []];
  for (let run = 0; run < LONE_RUNS; run++) {
    loneSdk?.push(await timeUs(() => runSdk(daemon)));
    lone?.push(await timeUs(() => runAgent(client)));
  }
  const rounds = context.quick ? QUICK_ROUNDS : ROUNDS;
  const atOnce = async (work: () => Promise<void>): Promise<void> => {
    await Promise.all(Array.from({ length: count }, work));
  };
  for (let round = 1; round <= rounds; round++) {
    context.progress(`${count} at once, ${round} of ${rounds}`);
    allSdk?.push(await timeUs(() => atOnce(() => runSdk(daemon))));
    all?.push(await timeUs(() => atOnce(() => runAgent(client))));
  }
  await rm(dir, { recursive: true, force: true });
  const series = (name: string, samples: number[] = []): Series => ({
    scenario: agentRuns.name,
    name,
    unit: "us",
    samples,
  });
  return [
    series("SDK, lone", loneSdk),
    series("agents, lone", lone),
    series("SDK, all at once", allSdk),
    series("agents, all at once", all),
  ];
}

async function runAgent(client: AgentServiceClient): Promise<void> {
  const { status, text, error } = await client.executeAndWait("worker", { task: "go" });
  if (status !== "succeeded" || text !== "It printed hello")
    throw new Error(`an agent run ended ${status}: ${error?.message ?? text ?? ""}`);
}

/** What the agent does, without the agent. */
async function runSdk({ sdk }: BenchDaemon): Promise<void> {
  await using session = await sdk.createSession({ image: "linux" });
  await session.files.write("hello.sh", PROGRAM);
  const { stdout } = await session.exec(["sh", "hello.sh"]);
  if (stdout !== "hello\n") throw new Error(`the program printed ${JSON.stringify(stdout)}`);
}
