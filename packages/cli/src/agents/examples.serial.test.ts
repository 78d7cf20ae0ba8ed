/** The agents and workflows of `examples/agents`, run by the command line in real sandboxes; only models are scripted. */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestDaemon } from "../../../../tests/support/test-daemon.ts";
import { ModelServer, type ScriptedTurn } from "../../../agents/src/testing/model-server.ts";
import { runTestCli, TestCli } from "../testing/test-host.ts";

const PROGRAM = fileURLToPath(new URL("../../bin/sandkasten", import.meta.url));
const EXAMPLES = fileURLToPath(new URL("../../../../examples/agents", import.meta.url));

let daemon: TestDaemon;
let model: ModelServer;
let directory: string;

beforeAll(async () => {
  [daemon, model, directory] = await Promise.all([
    TestDaemon.start(),
    ModelServer.start(),
    mkdtemp(join(tmpdir(), "sandkasten-examples-")),
  ]);
});
afterAll(async () => {
  await model[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const environment = () => ({
  PATH: process.env["PATH"] ?? "",
  HOME: directory,
  SANDKASTEN_URL: daemon.url,
  SANDKASTEN_API_KEY: daemon.apiKey,
  SANDKASTEN_AGENTS_DATA_DIR: join(directory, "data"),
  OPENAI_BASE_URL: model.url,
  OPENAI_API_KEY: "of-no-one",
});

/** Inside this process, with the service also inside it. */
function start(...args: readonly string[]): TestCli {
  return new TestCli([...args, "--dir", EXAMPLES], { env: environment(), cwd: directory });
}

async function livingSessions(): Promise<string> {
  return (await runTestCli(["ls"], { env: environment() })).stdout;
}

const call = (name: string, input: object): ScriptedTurn => ({
  calls: [{ name, arguments: input }],
});

const HELLO = 'print("Hello, world!")\n';
const HELLO_TURNS: readonly ScriptedTurn[] = [
  call("sandbox_open", {}),
  call("sandbox_fs_write", { path: "hello.py", contents: HELLO }),
  call("sandbox_exec", { cmd: ["python3", "hello.py"] }),
  { text: "hello.py prints the greeting." },
];

describe("acceptance CM-42", () => {
  let service: ChildProcess;
  let url: string;
  beforeAll(async () => {
    const args = ["agents", "serve", "--dir", EXAMPLES, "--listen", "127.0.0.1:0", "--json"];
    service = spawn(PROGRAM, args, { env: environment(), stdio: ["ignore", "pipe", "ignore"] });
    if (service.stdout === null) throw new Error("there is no output to read");
    const [line] = (await once(createInterface(service.stdout), "line")) as [string];
    ({ url } = JSON.parse(line) as { url: string });
  });
  afterAll(() => {
    service.kill("SIGKILL");
  });

  const task = "Write a hello world program and run it";

  it(`sandkasten agent run "Python Developer" "${task}"`, async () => {
    model.play(HELLO_TURNS);
    const { stdout, stderr } = await promisify(execFile)(
      PROGRAM,
      ["agent", "run", "Python Developer", task],
      { env: { ...environment(), SANDKASTEN_AGENTS_URL: url } },
    );
    expect(stdout).toBe("hello.py prints the greeting.\n");
    expect(stderr).toMatch(
      /^▸ sandbox_open\n▸ sandbox_fs_write hello\.py\n▸ sandbox_exec python3 hello\.py\n {2}Hello, world!\n✓ run_\S+ succeeded 4 turns, 40 tokens in, 20 out, \S+\n$/,
    );
    expect(JSON.stringify(model.requests[0]?.body.messages)).toContain(task);
    expect(await livingSessions()).toBe("");
  });

  it("Ctrl-C in the middle of a command cancels the run and leaves no sandbox", async () => {
    model.play([call("sandbox_exec", { command: "echo begun; sleep 600" }), { text: "never" }]);
    const child = spawn(PROGRAM, ["agent", "run", "coder", task], {
      env: { ...environment(), SANDKASTEN_AGENTS_URL: url },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const exited = once(child, "exit");
    let shown = "";
    for await (const text of child.stderr) {
      shown += String(text);
      // The sandbox's output arrives while the command runs.
      if (shown.includes("  begun\n")) child.kill("SIGINT");
    }
    expect(await exited).toEqual([130, null]);
    expect(shown).toMatch(/^! run_\S+ cancelled /m);
    expect(await livingSessions()).toBe("");
  });
});

describe("an example", () => {
  it("demo runs offline, in a sandbox that is destroyed afterwards", async () => {
    const { code, stdout, stderr } = await start("agent", "run", "demo").done;
    expect(stdout).toBe(
      "I write a small program.\nNow I run it.\nThe program printed: Hello from Linux\n",
    );
    expect(stderr).toMatch(
      /^▸ sandbox_fs_write hello\.py\n▸ sandbox_exec python3 hello\.py\n {2}Hello from Linux\n✓ run_\S+ succeeded 3 turns/,
    );
    expect([code, await livingSessions()]).toEqual([0, ""]);
  });

  it("coder sees its test fail, corrects the program and sees it pass", async () => {
    const test = `import unittest\nfrom double import double\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(double(21), 42)\n`;
    const program = (body: string) => ({
      path: "double.py",
      contents: `def double(n):\n    return ${body}\n`,
    });
    const runTests = call("sandbox_exec", { command: "python3 -m unittest -v" });
    model.play([
      call("sandbox_fs_write", program("n")),
      call("sandbox_fs_write", { path: "test_double.py", contents: test }),
      runTests,
      call("sandbox_fs_write", program("2 * n")),
      runTests,
      { text: "double.py works." },
    ]);
    const { code, stdout, stderr } = await start("agent", "run", "coder", "Double a number").done;
    expect([code, stdout]).toEqual([0, "double.py works.\n"]);
    expect(stderr).toMatch(/FAILED \(failures=1\)[^]*✗ exit code 1[^]*\n {2}OK\n/);
  });

  it("data-analyst computes, and returns the table of its answer as an artifact", async () => {
    const csv = "city,amount\nRome,2\nOslo,3\nRome,5\n";
    const code = [
      "import collections, csv, os",
      "sums = collections.Counter()",
      "rows = list(csv.DictReader(open('data.csv')))",
      "for row in rows: sums[row['city']] += int(row['amount'])",
      "os.makedirs('output')",
      "with open('output/table.csv', 'w') as table:",
      "    for city, amount in sums.most_common(): table.write(f'{city},{amount}\\n')",
      "print(len(rows), sums.most_common(1))",
    ].join("\n");
    const answer = { answer: "Rome has most, 7.", rows: 3, table: "Rome,7\nOslo,3\n" };
    model.play([
      call("sandbox_run", { code, files: { "data.csv": csv }, artifacts: ["output/*"] }),
      { text: JSON.stringify(answer) },
    ]);
    const input = JSON.stringify({ csv, question: "Which city has the largest sum?" });
    const run = await start("agent", "run", "data-analyst", "--input", input, "--json").done;
    expect(JSON.parse(run.stdout)).toMatchObject({ status: "succeeded", output: answer });
    const [, second] = model.requests;
    const result = JSON.parse(second?.body.messages.at(-1)?.content ?? "") as Record<
      string,
      unknown
    >;
    expect(result).toMatchObject({ exit_code: 0, stdout: "3 [('Rome', 7)]\n" });
    expect(result["artifacts"]).toMatchObject([
      { path: "output/table.csv", content: answer.table },
    ]);
  });

  it("workflow demo runs offline; its second agent finds the file of the first", async () => {
    const { code, stdout, stderr } = await start("workflow", "run", "demo").done;
    expect([code, JSON.parse(stdout)]).toEqual([0, { size_bytes: 55 }]);
    expect(stderr).toMatch(/^▸ write agent\n✓ write \S+\n▸ check agent\n✓ check /);
    expect(await livingSessions()).toBe("");
  });

  it("review-and-fix: reviewer and fixer share a sandbox until the review passes", async () => {
    const program = (body: string) => ({
      path: "double.py",
      contents: `def double(n):\n    return ${body}\n`,
    });
    const check = call("sandbox_exec", {
      command: "python3 -c 'from double import double; print(double(21))'",
    });
    /** The tool results and the instructions identify the agent that asks. */
    model.play(({ messages }) => {
      const [system] = messages;
      const instructions = String(system?.content);
      const results = messages
        .filter(({ role }) => role === "tool")
        .map(({ content }) => String(content));
      if (instructions.includes("You review"))
        return results.length === 0
          ? check
          : {
              text: JSON.stringify(
                results[0]?.includes("42")
                  ? { approved: true, findings: [] }
                  : { approved: false, findings: ["double(21) is 21"] },
              ),
            };
      const isFixer = instructions.includes("You correct");
      if (results.length > 0) return { text: isFixer ? "double multiplies now." : "Written." };
      return call("sandbox_fs_write", program(isFixer ? "2 * n" : "n"));
    });
    const input = JSON.stringify({ task: "Double a number" });
    const { code, stdout, stderr } = await start(
      "workflow",
      "run",
      "review-and-fix",
      "--input",
      input,
    ).done;
    expect([code, JSON.parse(stdout)]).toEqual([
      0,
      { written: "Written.", review: { approved: true, findings: [] } },
    ]);
    const steps = [...stderr.matchAll(/^▸ (\S+)/gm)].map(([, name]) => name);
    expect(steps).toEqual(["write", "review", "decide", "fix", "review:2", "decide:2", "done"]);
    const fixing = model.requests.find(({ body }) =>
      JSON.stringify(body.messages).includes("You correct"),
    );
    expect(JSON.stringify(fixing?.body.messages)).toContain("- double(21) is 21");
    expect(await livingSessions()).toBe("");
  });
});
