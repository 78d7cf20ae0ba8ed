/** The channel and the real runner together, in separate namespaces: the runner is PID 1, its run directory private. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, chown, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { channelSuite } from "@sandkasten/testkit";
import type { ChannelFixture } from "@sandkasten/testkit";
import { RunnerChannel } from "./runner-channel.ts";
import { connectUnixSocket } from "./unix-socket.ts";

const RUNNER = fileURLToPath(new URL("../../../../native/bin/runner", import.meta.url));
const CODE_USER = 1000;

const ECHO_SERVER = `
import socket, sys
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    c, _ = s.accept()
    while (b := c.recv(65536)): c.sendall(b)
    c.shutdown(socket.SHUT_WR); c.close()
`;

async function startRunner(): Promise<ChannelFixture> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-runner-"));
  await chmod(directory, 0o755);
  const workspace = join(directory, "workspace");
  await mkdir(workspace);
  await chown(workspace, CODE_USER, CODE_USER);
  const socket = join(directory, "runner.sock");
  const script =
    'mount -t tmpfs none /run && mount -t tmpfs none /dev/shm && ip link set lo up && exec "$0" init --listen "$1" --workdir "$2" --user 1000:1000';
  const child = spawn(
    "unshare",
    [
      "--mount",
      "--net",
      "--pid",
      "--fork",
      "--kill-child",
      "--mount-proc",
      "sh",
      "-c",
      script,
      RUNNER,
      socket,
      workspace,
    ],
    {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", HOME: workspace },
    },
  );
  let complaints = "";
  child.stderr.on("data", (bytes: Buffer) => (complaints += bytes.toString()));
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  await new Promise<void>((resolve, reject) => {
    child.stdout.once("data", () => resolve());
    void exited.then(() =>
      reject(new Error(`the runner ended before it was ready: ${complaints}`)),
    );
  });
  const open = (): RunnerChannel =>
    new RunnerChannel({ connect: (signal) => connectUnixSocket(socket, signal) });
  return {
    channel: open(),
    reopen: () => Promise.resolve(open()),
    echoServer: (port) => ({ kind: "process", argv: ["python3", "-c", ECHO_SERVER, String(port)] }),
    close: async () => {
      // The end of the first process of a pid namespace ends all others.
      process.kill(await onlyChildOf(child.pid ?? 0), "SIGKILL");
      await exited;
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function onlyChildOf(pid: number): Promise<number> {
  const children = await readFile(`/proc/${String(pid)}/task/${String(pid)}/children`, "utf8");
  return Number(children.trim());
}

const missing = !existsSync(RUNNER)
  ? "the runner is not built"
  : process.getuid?.() !== 0
    ? "namespaces need root"
    : undefined;

channelSuite("the runner", startRunner, { unavailable: missing });
