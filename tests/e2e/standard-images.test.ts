/** The standard images, built by the real tools for a real daemon, and what agents expect in each of them. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SandboxClient } from "@sandkasten/sdk";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type CliRun, cliFor } from "../support/cli.ts";
import { TestDaemon } from "../support/test-daemon.ts";

/** Most of the time is spent downloading packages. */
const BUILD_TIMEOUT_MS = 45 * 60_000;

let daemon: TestDaemon;
let scratch: string;
let sandkasten: (...args: readonly string[]) => Promise<CliRun>;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-e2e-standard-"));
  // A daemon's default limits: a compiler needs them.
  const settings = { DEFAULTS_MEM_LIMIT_MB: undefined, DEFAULTS_DISK_LIMIT_MB: undefined };
  daemon = await TestDaemon.start({ settings });
  // The package sources that this machine is configured with.
  sandkasten = cliFor(daemon, scratch, { ...process.env, TMPDIR: scratch });
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

const names = ["base", "python", "node"] as const;

const PYTHON_PROGRAM = `
import io, numpy, pandas, requests
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plot
frame = pandas.DataFrame({"x": numpy.arange(4), "y": numpy.arange(4) ** 2})
figure = io.BytesIO()
frame.plot(x="x", y="y")
plot.savefig(figure, format="png")
print(frame["y"].sum(), figure.getvalue()[1:4].decode(), requests.Request("GET", "http://x").prepare().url)
`;

describe("standard images", () => {
  test.each(names)(
    "before they are built, %s is host, and every response says so",
    async (name) => {
      const { body } = await daemon.call("POST", "/v1/sessions", { image: name });
      expect(body).toMatchObject({ image: "host", requested_image: name });
      const ran = await sandkasten("run", "--image", name, "echo", "here");
      expect(ran).toMatchObject({ code: 0, stdout: "here\n" });
      expect(ran.stderr).toContain(
        `The image ${name} is not available locally, so the session uses host`,
      );
      expect(ran.stderr).toContain("sandkasten image build-standard");
    },
  );

  test("one command builds them all", { timeout: BUILD_TIMEOUT_MS }, async () => {
    const built = await sandkasten("image", "build-standard");
    expect(built).toMatchObject({ code: 0, stderr: "" });
    const lines = built.stdout.trim().split("\n");
    expect(lines.map((line) => line.split("\t")[0])).toEqual(
      names.map((name) => `sandbox-runtime:${name}`),
    );
    const client = new SandboxClient({ baseUrl: daemon.url, apiKey: daemon.apiKey });
    const images = await client.images.list();
    expect(images.filter(({ shared }) => shared).map(({ reference }) => reference)).toEqual(
      expect.arrayContaining(names.map((name) => `sandbox-runtime:${name}`)),
    );
  });

  test.each(names)("%s is then the image of sessions that use this name", async (name) => {
    const { body } = await daemon.call("POST", "/v1/sessions", { image: name });
    expect(body).toMatchObject({ image: `sandbox-runtime:${name}` });
    const ran = await sandkasten("run", "--image", name, "cat", "/etc/os-release");
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    expect(ran.stdout).toContain("ID=debian");
  });

  test.each(names)("%s has the programs of the base", async (name) => {
    const script = [
      "set -e",
      "git init -q repository && git -C repository rev-parse --is-inside-work-tree",
      "curl --version | head -n 1 | cut -d' ' -f1",
      `echo '{"a": [1, 2]}' | jq -c .a`,
      "echo needle > hay; rg --no-filename needle hay",
      `printf 'int main(void) { return 7; }' > seven.c; printf 'seven: seven.c\\n\\tcc -o $@ $<\\n' > Makefile`,
      "make -s seven; ./seven || echo $?",
    ].join("\n");
    const ran = await sandkasten("run", "--image", name, script);
    expect(ran).toEqual({ code: 0, stdout: "true\ncurl\n[1,2]\nneedle\n7\n", stderr: "" });
  });

  test("python computes, draws and prepares requests", async () => {
    const ran = await sandkasten("run", "--image", "python", "python3", "-c", PYTHON_PROGRAM);
    expect(ran).toEqual({ code: 0, stdout: "14 PNG http://x/\n", stderr: "" });
    const tools = await sandkasten("run", "--image", "python", "pip --version; pytest --version");
    expect(tools.stdout).toMatch(/^pip \d.*\npytest \d/);
  });

  test("node runs JavaScript, npm and TypeScript", async () => {
    const script = [
      "set -e",
      'node -p "process.versions.node.split(\\".\\")[0]"',
      "npm --version",
      "echo 'const answer: number = 42; console.log(answer);' > answer.ts",
      "tsc --target es2022 answer.ts && node answer.js",
      "tsx answer.ts",
      `echo 'const wrong: number = "text";' > wrong.ts; tsc --noEmit wrong.ts || echo refused`,
    ].join("\n");
    const ran = await sandkasten("run", "--image", "node", script);
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    expect(ran.stdout).toMatch(/^24\n\d+\.\d+\.\d+\n42\n42\nwrong\.ts.*TS2322.*\nrefused\n$/s);
  });
});
