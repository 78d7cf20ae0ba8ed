/** The images of `images/`: what a sandbox expects of them, and the script that builds them. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import type { DockerEngine } from "../../support/docker-engine.ts";
import { STAND_IN_NPM_VERSION } from "../../support/image-builds.ts";

const run = promisify(execFile);
const BUILD = "images/build.sh";

/** An engine that has the images. */
export interface Built {
  readonly engine: DockerEngine;
  /** For other files of a test. */
  readonly directory: string;
  /** What the script printed when it built them. */
  readonly printed: string;
}

/** @param built - Resolves when the tests run. */
export function testImages(built: () => Built): void {
  describe("the images for sandboxes", () => {
    test("are built one after the other, the base first, and the script tells how far it is", () => {
      const { printed } = built();
      const size = /, \d+ MB$/gm;
      expect(printed.replaceAll(size, "")).toBe(
        [
          "sandbox-runtime:base",
          "sandkasten:latest",
          "sandbox-runtime:node",
          "sandbox-runtime:python",
        ]
          .flatMap((tag, index) => [
            `images: building ${tag} (${index + 1} of 4)\n`,
            `images: built ${tag}\n`,
          ])
          .join(""),
      );
      expect(printed.match(size)).toHaveLength(4);
    });

    test.for(["base", "python", "node"])(
      "%s starts the runner as the user sandbox in /workspace",
      async (name) => {
        const format = "{{json .Config}}";
        const config: unknown = JSON.parse(
          await built().engine.docker(
            "image",
            "inspect",
            "--format",
            format,
            `sandbox-runtime:${name}`,
          ),
        );
        expect(config).toMatchObject({
          User: "sandbox",
          WorkingDir: "/workspace",
          Entrypoint: ["/usr/local/bin/runner"],
        });
      },
    );

    test("base works by itself: shell, files and a separate user", async () => {
      await using made = await start(built().engine, "sandbox-runtime:base");
      expect(await made.sh("id; pwd; stat --format '%U %a' /workspace; getent passwd 1000")).toBe(
        [
          "uid=1000(sandbox) gid=1000(sandbox) groups=1000(sandbox)",
          "/workspace",
          "sandbox 755",
          "sandbox:x:1000:1000::/home/sandbox:/bin/bash",
        ].join("\n"),
      );
      expect(await made.sh("ps -o args= 1; ls /etc/ssl/certs/ca-certificates.crt")).toBe(
        "/usr/local/bin/runner\n/etc/ssl/certs/ca-certificates.crt",
      );
      // Each request is a separate process, and the shell keeps its state.
      await made.sh("cd /tmp && name=sandkasten");
      expect(await made.sh('echo "$name in $PWD"')).toBe("sandkasten in /tmp");
      const content = Buffer.from("written\n").toString("base64");
      await made.ask({ type: "write", path: "/workspace/file", content_base64: content });
      expect(await made.sh("cat /workspace/file; stat --format %U /workspace/file")).toBe(
        "written\nsandbox",
      );
      expect(await made.ask({ type: "read", path: "/workspace/file" })).toMatchObject({
        content_base64: content,
      });
    });

    test("python has Python with pip and venv, and prints at once", async () => {
      await using made = await start(built().engine, "sandbox-runtime:python");
      expect(await made.sh("python3 -c 'print(sum(range(5)))'")).toBe("10");
      expect(await made.sh("python3 -m pip --version")).toMatch(/^pip \d/);
      await made.sh("python3 -m venv --without-pip env && env/bin/python -c 'import sys'");
      // Printed output arrives even if the program then exits abruptly.
      expect(await made.sh("python3 -c 'print(1); import os; os._exit(0)'")).toBe("1");
    });

    test("node has the Node and the npm of the image that they come from", async () => {
      await using made = await start(built().engine, "sandbox-runtime:node");
      expect(await made.sh("node -p process.version")).toBe(process.version);
      expect(await made.sh("npm --version && npx --version")).toBe(
        `${STAND_IN_NPM_VERSION}\n${STAND_IN_NPM_VERSION}`,
      );
    });
  });

  describe("the image of the daemon", () => {
    test("has the client of agent services, and neither a service nor Genkit", async () => {
      const script = [
        "ls /opt/sandkasten/node_modules | grep -c genkit",
        "sandkasten agent list --dir /tmp",
        "SANDKASTEN_AGENTS_URL=http://127.0.0.1:1 sandkasten agent list",
      ].join("; ");
      const container = ["--rm", "--network=none", "--entrypoint=sh", "sandkasten:latest"];
      const shown = await built().engine.docker(
        "run",
        ...container,
        "-c",
        `{ ${script}; } 2>&1; true`,
      );
      const [genkit, ...said] = shown.split("\n").filter((line) => !line.startsWith("→"));
      expect(genkit).toBe("0");
      expect(said).toEqual([
        "✗ The agent service is not installed here.",
        "✗ No agent service answers at http://127.0.0.1:1.",
      ]);
    });
  });

  describe("the build script", () => {
    const failure = async (program: string, ...args: readonly string[]): Promise<string> =>
      await run(program, args).then(
        ({ stdout }) => `it did not fail: ${stdout}`,
        (error: { readonly stderr: string }) => error.stderr,
      );

    test("explains itself", async () => {
      expect((await run(BUILD, ["--help"])).stdout).toMatch(/^Usage: .*base, python, node/s);
    });

    test("refuses what it does not know", async () => {
      expect(await failure(BUILD, "ruby")).toBe(
        'images: there is no image or option "ruby"; --help shows which there are.\n',
      );
      expect(await failure(BUILD, "--base")).toBe(
        "images: --base needs a value; --help shows how.\n",
      );
    });

    test("says how to get a runner where there is none, and that no engine answers", async () => {
      const clone = await mkdtemp(join(tmpdir(), "sandkasten-clone-"));
      try {
        for (const name of ["images", "scripts"])
          await cp(name, join(clone, name), { recursive: true });
        expect(await failure(join(clone, BUILD))).toBe(
          "images: native/bin/runner is missing: run `npm run setup` first.\n",
        );
        const nowhere = `unix://${clone}/none.sock`;
        expect(await failure(BUILD, "--engine", nowhere)).toContain(
          `images: no Docker engine answers at ${nowhere}; name another with --engine.\n`,
        );
      } finally {
        await rm(clone, { recursive: true });
      }
    });

    test("passes on what the engine says when a build fails", async () => {
      const said = await failure(
        BUILD,
        "--engine",
        built().engine.host,
        "base",
        "--",
        "--no-such-flag",
      );
      expect(said).toContain("--no-such-flag");
      expect(said).toContain("images: sandbox-runtime:base could not be built");
    });
  });
}

interface Reply {
  readonly type: string;
  readonly exit_code?: number;
  readonly output?: string;
}

interface Made extends AsyncDisposable {
  /** One request, as `docker exec … runner --client` sends it. */
  ask(request: Readonly<Record<string, unknown>>): Promise<Reply>;
  /** The output of a command in the stateful shell. */
  sh(cmd: string): Promise<string>;
}

/** A container of the unchanged image, with only a name set. */
async function start(engine: DockerEngine, image: string): Promise<Made> {
  const id = await engine.docker("run", "--detach", image);
  const ask = async (request: Readonly<Record<string, unknown>>): Promise<Reply> => {
    const line = JSON.stringify({ id: "one", ...request });
    // A failure is an answer, too: it has exit code 1.
    const [program = "", ...args] = engine.command("exec", id, "runner", "--client", line);
    const { stdout } = await run(program, args).catch(
      (error: { readonly stdout: string }) => error,
    );
    return JSON.parse(stdout) as Reply;
  };
  const remove = async (): Promise<void> => {
    await engine.docker("rm", "--force", "--volumes", id);
  };
  try {
    await ready(engine, id);
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    ask,
    sh: async (cmd) => {
      const reply = await ask({ type: "exec", cmd, timeout_ms: 60_000 });
      if (reply.exit_code !== 0) throw new Error(`${cmd}: ${JSON.stringify(reply)}`);
      return (reply.output ?? "").trim();
    },
    [Symbol.asyncDispose]: remove,
  };
}

/** The runner prints when it is ready for requests. */
async function ready(engine: DockerEngine, id: string): Promise<void> {
  const [program = "", ...args] = engine.command("logs", "--follow", id);
  const logs = spawn(program, args);
  const ended = once(logs, "exit");
  let seen = "";
  for await (const line of createInterface(logs.stdout)) {
    seen += line;
    if (line.includes('"ready":true')) break;
  }
  logs.kill();
  await ended;
  if (!seen.includes('"ready":true')) throw new Error(`the runner did not start: ${seen}`);
}
