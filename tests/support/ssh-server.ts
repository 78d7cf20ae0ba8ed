/** A private SSH server on loopback, and a client that knows it; both are removed afterwards. */
import { execFile, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { userInfo } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { freePort } from "./free-port.ts";

const START_TIMEOUT_MS = 20_000;
const run = promisify(execFile);

export class SshServer implements AsyncDisposable {
  readonly port: number;
  readonly #directory: string;
  readonly #environment: NodeJS.ProcessEnv;
  #child: ChildProcess | undefined;

  private constructor(directory: string, port: number, environment: NodeJS.ProcessEnv) {
    this.#directory = directory;
    this.port = port;
    this.#environment = environment;
  }

  /** Creates the directory, which must not exist. Logins get the environment in addition to ours. */
  static async start(directory: string, environment: NodeJS.ProcessEnv): Promise<SshServer> {
    await mkdir(join(directory, "home/.ssh"), { recursive: true, mode: 0o700 });
    const server = new SshServer(directory, await freePort(), environment);
    await run("dropbearkey", ["-t", "ed25519", "-f", server.#file("host-key")]);
    await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", server.#file("user-key")]);
    await writeFile(
      server.#file("home/.ssh/authorized_keys"),
      await readFile(server.#file("user-key.pub")),
      { mode: 0o600 },
    );
    await server.startAgain();
    return server;
  }

  /** For the address of an engine. */
  get url(): string {
    return `ssh://${encodeURIComponent(userInfo().username)}@127.0.0.1:${this.port}`;
  }

  /** Also disconnects logged-in clients. */
  async stop(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
    // The killed process is the parent of the server, which the kernel ends a moment later.
    while (await this.#listens()) await sleep(10);
  }

  async #listens(): Promise<boolean> {
    const socket = connect(this.port, "127.0.0.1");
    const { promise, resolve } = Promise.withResolvers<boolean>();
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    const listens = await promise;
    socket.destroy();
    return listens;
  }

  /** On the same port and with the same key. */
  async startAgain(): Promise<void> {
    // It looks for keys in its user's home, which is ours in a mount namespace; with the pid namespace
    // end all its processes. Both end when it does.
    const script = 'mount --bind "$1" "$2" && shift 2 && exec dropbear "$@"';
    const child = spawn(
      "setpriv",
      [
        ..."--pdeathsig=KILL unshare --mount --pid --fork --kill-child sh -c".split(" "),
        script,
        "sh",
        this.#file("home"),
        userInfo().homedir,
        ..."-F -E -e -m -s -r".split(" "),
        this.#file("host-key"),
        "-p",
        `127.0.0.1:${this.port}`,
        "-P",
        this.#file("pid"),
      ],
      {
        env: { ...process.env, ...this.#environment },
        stdio: ["ignore", "ignore", "pipe"],
      },
    );
    this.#child = child;
    let words = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      words += text;
    });
    const deadline = Date.now() + START_TIMEOUT_MS;
    while (!words.includes("Not backgrounding")) {
      if (child.exitCode !== null || Date.now() > deadline)
        throw new Error(`the SSH server did not start: ${words}`);
      await sleep(10);
    }
  }

  /**
   * A program to call in place of `ssh`: the real one, with this server's key among its known
   * hosts, which logs its arguments to the file `calls`.
   */
  async client(): Promise<string> {
    const { stdout } = await run("dropbearkey", ["-y", "-f", this.#file("host-key")]);
    const hostKey = stdout.split("\n").find((line) => line.startsWith("ssh-ed25519 ")) ?? "";
    return await this.#program("ssh", `[127.0.0.1]:${this.port} ${hostKey}\n`);
  }

  /** The same without the server's key. */
  async strangersClient(): Promise<string> {
    return await this.#program("strangers-ssh", "");
  }

  /** The arguments of the client's calls. */
  async calls(): Promise<string[]> {
    return (await readFile(this.#file("ssh.calls"), "utf8")).trim().split("\n");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #file(name: string): string {
    return join(this.#directory, name);
  }

  async #program(name: string, knownHosts: string): Promise<string> {
    const [program, known] = [this.#file(name), this.#file(`${name}.known-hosts`)];
    await writeFile(known, knownHosts);
    const options = [
      `UserKnownHostsFile=${known}`,
      "GlobalKnownHostsFile=/dev/null",
      `IdentityFile=${this.#file("user-key")}`,
      "IdentityAgent=none",
    ];
    const flags = options.map((option) => `-o ${option}`).join(" ");
    await writeFile(
      program,
      `#!/bin/sh\necho "$@" >>${program}.calls\nexec ssh -F /dev/null ${flags} "$@"\n`,
    );
    await chmod(program, 0o755);
    return program;
  }
}
