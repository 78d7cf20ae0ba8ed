/**
 * The command line as people run it: a separate process, a real daemon, real sandboxes, a real
 * terminal.
 */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type IPty, spawn as spawnOnTerminal } from "@lydell/node-pty";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { firstRequest } from "./commands/start.ts";
import { agentsPid, argumentsOf, isAlive } from "./testing/agents-process.ts";

const PROGRAM = fileURLToPath(new URL("../bin/sandkasten", import.meta.url));
const run = promisify(execFile);

let directory: string;
let daemon: ChildProcess;
let stages: readonly string[];
let ready: { readonly url: string; readonly apiKey: string; readonly agentsUrl: string };

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
  await mkdir(join(directory, "agents"));
  const coder = "---\nmodel: scripted/demo\nsandbox: { mode: code }\n---\nWork.\n";
  await writeFile(join(directory, "agents", "coder.prompt"), coder);
  daemon = spawn(
    PROGRAM,
    [
      "start",
      "--json",
      "--listen",
      "127.0.0.1:0",
      "--data-dir",
      directory,
      "--set",
      "shutdown=destroy",
      "--agents-listen",
      "127.0.0.1:0",
    ],
    { cwd: directory, stdio: ["ignore", "pipe", "inherit"] },
  );
  const seen: string[] = [];
  if (daemon.stdout === null) throw new Error("there is no output to read");
  for await (const line of createInterface({ input: daemon.stdout })) {
    const event = JSON.parse(line) as { type: string; name: string } & typeof ready;
    if (event.type === "stage") seen.push(event.name);
    if (event.type !== "ready") continue;
    ready = event;
    break;
  }
  stages = seen;
});

afterAll(async () => {
  daemon.kill("SIGKILL");
  await rm(directory, { recursive: true, force: true });
});

function environment(): NodeJS.ProcessEnv {
  return { ...process.env, SANDKASTEN_URL: ready.url, SANDKASTEN_API_KEY: ready.apiKey };
}

async function sandkasten(...args: readonly string[]) {
  const child = run(PROGRAM, args, { env: environment() });
  child.child.stdin?.end();
  return await child.then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  );
}

const terminals: Terminal[] = [];
afterEach(() => {
  for (const terminal of terminals.splice(0)) terminal.close();
});

/** A terminal with the user's shell and typed input. */
class Terminal {
  readonly #pty: IPty;
  #text = "";
  #look: () => void = () => {};
  #closed = false;
  readonly exited: Promise<number>;

  constructor(command: string) {
    this.#pty = spawnOnTerminal("/bin/sh", ["-c", command], {
      cols: 100,
      rows: 30,
      env: environment(),
    });
    this.#pty.onData((data) => {
      this.#text += data;
      this.#look();
    });
    this.exited = new Promise((resolve) =>
      this.#pty.onExit(({ exitCode }) => {
        this.#closed = true;
        resolve(exitCode);
      }),
    );
    terminals.push(this);
  }

  /** The same as closing the window. */
  close(): void {
    if (!this.#closed) this.#pty.kill("SIGHUP");
  }

  get text(): string {
    return this.#text;
  }

  type(text: string): void {
    this.#pty.write(text);
  }

  resize(cols: number, rows: number): void {
    this.#pty.resize(cols, rows);
  }

  /** Waits until the screen has shown the pattern. */
  async shows(pattern: RegExp): Promise<string> {
    const found = Promise.withResolvers<string>();
    this.#look = () => {
      const match = pattern.exec(this.#text);
      if (match !== null) found.resolve(match[0]);
    };
    void this.exited.then(() =>
      found.reject(new Error(`${String(pattern)} was not shown: ${JSON.stringify(this.#text)}`)),
    );
    this.#look();
    return await found.promise;
  }
}

describe("start", () => {
  it("shows each step and prints a request that works", async () => {
    expect(stages).toEqual([
      "Read the configuration",
      "Check the machine",
      "Start the daemon",
      "Open a sandbox",
      "Run a command in it",
      "Destroy it",
      "Start the agent service",
    ]);
    const { stdout } = await run("/bin/sh", ["-c", firstRequest(ready.url, ready.apiKey)]);
    const { id } = JSON.parse(stdout) as { id: string };
    expect((await sandkasten("rm", id)).stdout).toBe(`${id}\n`);
  });

  it("`stn up default --dev` can run agents with sandbox tools, and so can `sandkasten start`", async () => {
    const answer = await fetch(`${ready.agentsUrl}/execute?wait=true`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"agent_name": "coder", "task": "Write a hello.py and run it"}',
    });
    expect(await answer.json()).toMatchObject({
      status: "succeeded",
      text: "The program printed: Hello from the sandbox, it is Linux.",
    });
  });

  it("gives the agent service the daemon's key, but not where other users can read it", async () => {
    const words = await argumentsOf(await agentsPid(daemon));
    expect(words).toContain("serve");
    expect(words.join(" ")).not.toContain(ready.apiKey);
  });

  it.each([[], ["--json"]])("never shows a configured key: %j", async (...more) => {
    const data = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
    const args = ["start", "--no-agents", ...more, "--listen", "127.0.0.1:0", "--data-dir", data];
    const child = spawn(PROGRAM, [...args, "--set", "shutdown=destroy"], {
      cwd: data,
      env: { ...process.env, SANDKASTEN_API_KEY: "sk-chosen-by-somebody" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const exited = once(child, "exit");
    let shown = "";
    child.stderr.on("data", (text: Buffer) => (shown += text.toString()));
    for await (const text of child.stdout) {
      shown += String(text);
      if (/Ctrl-C stops|"ready"/.test(shown)) break;
    }
    child.kill("SIGTERM");
    await exited;
    await rm(data, { recursive: true, force: true });
    expect(shown).toMatch(/http:\/\/127\.0\.0\.1:\d+/);
    expect(shown).not.toContain("sk-chosen");
    expect(shown.replaceAll(PROGRAM, "sandkasten")).not.toContain("agent");
  });
});

describe("doctor", () => {
  it("reports that the machine is usable and the daemon responds", async () => {
    const { code, stdout } = await sandkasten("doctor", "--json", "--data-dir", directory);
    expect(JSON.parse(stdout)).toMatchObject({
      usable: true,
      machine: expect.arrayContaining([expect.objectContaining({ name: "node", ok: true })]),
      daemon: { ok: true, detail: expect.stringContaining(ready.url) },
    });
    expect(code).toBe(0);
  });
});

describe("run", () => {
  it("ends silently, without leaving a session, if its output is closed", async () => {
    const pipe = `${PROGRAM} run -- yes | head -n 1; ${PROGRAM} ls`;
    const { stdout, stderr } = await run("/bin/sh", ["-c", pipe], { env: environment() });
    expect([stdout, stderr]).toEqual(["y\n", ""]);
  });

  it("runs text in a separate shell with --fresh", async () => {
    const id = (await sandkasten("open")).stdout.trimEnd();
    await sandkasten("exec", id, "--", "cd /tmp");
    expect((await sandkasten("exec", id, "--fresh", "--", "pwd")).stdout).toBe("/workspace\n");
    await sandkasten("rm", id);
  });
});

describe("shell", () => {
  it("opens a terminal that knows its size, passes on Ctrl-C and leaves no session", async () => {
    const terminal = new Terminal(`${PROGRAM} shell; echo "code $?"; stty -a`);
    terminal.type("tty; stty size\r");
    await terminal.shows(/\/dev\/pts\/\d+\r\n30 100\r\n/);
    // Resizes and input travel separately, so the program waits until the resize has arrived.
    terminal.type("until [ \"$(stty size)\" = '40 120' ]; do sleep 0.02; done; echo re''sized\r");
    terminal.resize(120, 40);
    await terminal.shows(/resized/);
    // Ctrl-C goes to the program inside: the shell continues.
    terminal.type("echo a''sleep; sleep 600\r");
    await terminal.shows(/asleep/);
    terminal.type("\u0003");
    await terminal.shows(/\^C/);
    terminal.type("echo st''ill here\r");
    await terminal.shows(/still here/);
    terminal.type("exit 5\r");
    await terminal.shows(/code 5\r\n/);
    expect(await terminal.exited).toBe(0);
    const state = terminal.text.slice(terminal.text.indexOf("code 5"));
    expect(state).toMatch(/ icanon/);
    expect(state).toMatch(/ echo /);
    expect((await sandkasten("ls")).stdout).toBe("");
  });

  it("restores the terminal and destroys its session if it is terminated", async () => {
    const shell = `sh -c 'echo pid $$; exec ${PROGRAM} shell'`;
    const terminal = new Terminal(`${shell}; echo "code $?"; stty -a`);
    const pid = Number((await terminal.shows(/pid \d+/)).slice("pid ".length));
    terminal.type("printf '\\033[?1000h'; echo re''ady\r");
    await terminal.shows(/ready/);
    process.kill(pid, "SIGTERM");
    await terminal.shows(/code 143\r\n/);
    await terminal.exited;
    expect(terminal.text).toContain("\u001b[?1000l");
    expect(terminal.text.slice(terminal.text.indexOf("code 143"))).toMatch(/ icanon/);
    expect((await sandkasten("ls")).stdout).toBe("");
  });

  it("ends with its piped input, even if that ends while a command runs", async () => {
    const shell = spawn(PROGRAM, ["shell"], { env: environment() });
    const exit = once(shell, "exit");
    shell.stdin.write("echo sta''rted; sleep 1; echo do''ne\n");
    let text = "";
    for await (const chunk of shell.stdout) {
      text += String(chunk);
      if (text.includes("started") && !shell.stdin.writableEnded) shell.stdin.end();
    }
    expect(text).toContain("done");
    expect(await exit).toEqual([0, null]);
  });
});

describe("the daemon", () => {
  it("stops gracefully at SIGTERM, after the agent service, and exits with 0", async () => {
    const agents = await agentsPid(daemon);
    const exit = once(daemon, "exit");
    daemon.kill("SIGTERM");
    expect(await exit).toEqual([0, null]);
    expect(isAlive(agents)).toBe(false);
  });

  it("is reported as stopped by doctor afterwards, which is not a failure of the machine", async () => {
    const { code, stdout } = await sandkasten("doctor", "--data-dir", directory);
    expect(stdout).toMatch(/^check\tdaemon\t–\tnone answers at .*\t.*sandkasten start/m);
    expect(stdout).toMatch(/^usable\tyes\n/);
    expect(code).toBe(0);
  });
});
