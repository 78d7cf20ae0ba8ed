/** Samples must work: those for curl are run, and those for TypeScript compiled; Python's in tests/e2e/python-client.test.ts. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ALICES_KEY, HttpFixture } from "../../../testing/http-fixture.ts";
import type { OpenApiDocument } from "../openapi.ts";
import { DAEMON_URL } from "./code-samples.ts";
import type { CodeSample } from "./code-samples.ts";
import { SAMPLED_OPERATIONS } from "./sample-table.ts";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "../../../../../../..");

/** A compiler, or eighty requests, on a machine that is busy with other tests. */
const TIMEOUT_MS = 60_000;
const NOT_UNDERSTOOD = /"error_code":"(?:INVALID_REQUEST|ROUTE_NOT_FOUND|UNAUTHORIZED)"/;
/** The id of the session that the other samples use. */
const END = "DELETE /v1/sessions/{id}";

let http: HttpFixture;
let directory: string;
let samples: ReadonlyMap<string, readonly CodeSample[]>;
beforeAll(async () => {
  http = await HttpFixture.start({ unchecked: true });
  directory = await mkdtemp(join(tmpdir(), "sandkasten-samples-"));
  for (const name of ["data.bin", "image.tar", "project.tar"])
    await writeFile(join(directory, name), Buffer.alloc(1024));
  const document = (await http.call("/openapi.json")).json as OpenApiDocument;
  samples = new Map(
    Object.entries(document.paths).flatMap(([path, operations]) =>
      Object.entries(operations).map(([method, operation]) => [
        `${method.toUpperCase()} ${path}`,
        operation["x-codeSamples"] ?? [],
      ]),
    ),
  );
});
afterAll(async () => {
  await http[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const sources = (lang: CodeSample["lang"]): readonly string[] =>
  [...samples.values()].map((all) => all.find((sample) => sample.lang === lang)?.source ?? "");

describe("the samples of the API", () => {
  it("exist for every operation in every language", () => {
    expect(samples.size).toBeGreaterThan(80);
    for (const [operation, all] of samples)
      expect([operation, ...all.map(({ label }) => label)]).toEqual([
        operation,
        "curl",
        "TypeScript",
        "Python",
      ]);
  });

  it("have rows only for operations that exist", () => {
    expect(SAMPLED_OPERATIONS.filter((name) => !samples.has(name))).toEqual([]);
  });

  it("use the client if it has a method", () => {
    const plain = [...samples].filter(([, all]) =>
      all.some(({ lang, source }) => lang === "typescript" && !source.includes("SandboxClient")),
    );
    expect(plain.length).toBeLessThan(15);
  });

  it("for curl are requests that the daemon accepts", { timeout: TIMEOUT_MS }, async () => {
    const id = await http.createSession();
    const started = await http.call(`/v1/sessions/${id}/execs`, {
      body: { cmd: ["sleep", "60"], pty: { rows: 24, cols: 80 } },
    });
    const { exec_id: execId } = started.json as { readonly exec_id: string };
    const here = (source: string): string =>
      source
        .replaceAll(DAEMON_URL, http.url)
        .replaceAll("ses_123", id)
        .replaceAll("exe_123", execId);
    const commands = (names: readonly string[]): readonly string[] =>
      names.map((name) => here(samples.get(name)?.[0]?.source ?? ""));
    const names = [...samples.keys()].filter((name) => name !== END);
    const answers = await answersTo(commands(names));
    expect(answers).toHaveLength(names.length);
    const problems = answers.flatMap(({ status, body }, index) =>
      status === 0 || NOT_UNDERSTOOD.test(body) ? [`${names[index]}: ${status} ${body}`] : [],
    );
    expect(problems).toEqual([]);
    expect(await answersTo(commands([END]))).toMatchObject([{ status: 200 }]);
  });

  it("for TypeScript compile", { timeout: TIMEOUT_MS }, async () => {
    const project = join(ROOT, "packages/daemon/node_modules/.samples");
    await rm(project, { recursive: true, force: true });
    await mkdir(project, { recursive: true });
    try {
      for (const [index, source] of sources("typescript").entries())
        await writeFile(join(project, `sample-${index}.ts`), `${source}\nexport {};\n`);
      const config = {
        extends: join(ROOT, "tsconfig.base.json"),
        compilerOptions: { noUnusedLocals: true, noPropertyAccessFromIndexSignature: false },
        include: ["*.ts"],
      };
      await writeFile(join(project, "tsconfig.json"), JSON.stringify(config));
      expect(await outputOf("node_modules/typescript-native/bin/tsc", ["-p", project])).toBe("");
    } finally {
      await rm(project, { recursive: true, force: true });
    }
  });
});

interface Answer {
  readonly status: number;
  readonly body: string;
}

/** The output of one curl process for all commands, in order; streams are ended after a moment. */
async function answersTo(commands: readonly string[]): Promise<readonly Answer[]> {
  const calls = commands.map(
    (command, index) =>
      `--silent --max-time 5 --output answer-${index} --write-out '${index} %{http_code}\\n' ${command.replace(/^curl /, "")}`,
  );
  const { stdout } = await run("bash", ["-c", `curl --parallel ${calls.join(" --next ")}`], {
    cwd: directory,
    env: { PATH: process.env["PATH"], SANDKASTEN_API_KEY: ALICES_KEY },
  }).catch((error: unknown) => error as { readonly stdout: string });
  const statuses = new Map(
    [...stdout.matchAll(/^(\d+) (\d+)$/gm)].map(([, index, status]) => [
      Number(index),
      Number(status),
    ]),
  );
  return await Promise.all(
    calls.map(async (_call, index) => ({
      status: statuses.get(index) ?? 0,
      body: await readFile(join(directory, `answer-${index}`), "utf8").catch(() => ""),
    })),
  );
}

async function outputOf(program: string, args: readonly string[]): Promise<string> {
  const { stdout } = await run(process.execPath, [join(ROOT, program), ...args]).catch(
    (error: unknown) => error as { readonly stdout: string },
  );
  return stdout;
}
