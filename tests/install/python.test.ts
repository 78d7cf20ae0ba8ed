/** The Python client's wheel and source archive on a machine with Python, against a real daemon. */
import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CleanMachine } from "../support/clean-machine.ts";
import { ReleaseBuild } from "../support/release-build.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const TIMEOUT_MS = 15 * 60_000;
const ROOT = join(import.meta.dirname, "../..");
const CACHE_DIR = process.env["SANDKASTEN_TEST_CACHE"] ?? "/var/cache/sandkasten-test";

/** The client's dependencies, and what builds it from source, downloaded once per machine. */
async function fetchWheels(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  const pip = join(ROOT, ".toolchain/python/bin/pip");
  const constraints = join(ROOT, "tests/python/requirements.txt");
  const args = ["download", "--disable-pip-version-check", "--constraint", constraints];
  const wanted = ["httpx2", "websockets", "setuptools"];
  const find = ["--find-links", directory, "--dest", directory];
  const here = [...args, "--no-index", ...find, ...wanted];
  await promisify(execFile)(pip, here).catch(() =>
    promisify(execFile)(pip, [...args, ...find, ...wanted]),
  );
}

let release: ReleaseBuild;
let machine: CleanMachine;
let daemon: TestDaemon;
let wheel: string;
let archive: string;
beforeAll(async () => {
  release = await ReleaseBuild.create("python");
  machine = await CleanMachine.create();
  const wheels = join(CACHE_DIR, "wheels");
  await fetchWheels(wheels);
  await machine.copy(wheels, "root/wheels");
  [wheel, archive] = [
    await release.file("sandkasten_client-*-py3-none-any.whl"),
    await release.file("sandkasten_client-*.tar.gz"),
  ];
  for (const file of [wheel, archive]) await machine.copy(file, `root/${basename(file)}`);
  daemon = await TestDaemon.start();
}, TIMEOUT_MS);
afterAll(async () => {
  await daemon?.[Symbol.asyncDispose]();
  await machine?.[Symbol.asyncDispose]();
  await release?.[Symbol.asyncDispose]();
});

const PROGRAM = `
from sandkasten import SyncSandboxClient

with SyncSandboxClient() as client, client.create_session() as session:
    result = session.exec("echo hello from $PWD")
    print(result.exit_code, result.output.strip())
`;

const METADATA = `
from importlib.metadata import metadata

print(metadata("sandkasten-client")["License-Expression"])
`;

describe("sandkasten-client", { timeout: TIMEOUT_MS }, () => {
  test.each(["wheel", "source archive"])(
    "installs from its %s, and runs a command",
    async (kind) => {
      const file = basename(kind === "wheel" ? wheel : archive);
      const said = await machine.run(
        `
        rm -rf environment
        python3 -m venv environment
        environment/bin/pip install --quiet --no-index --find-links wheels ./${file}
        environment/bin/python -c '${METADATA}'
        environment/bin/python -c '${PROGRAM}'
      `,
        {
          env: { SANDKASTEN_URL: daemon.url, SANDKASTEN_API_KEY: daemon.apiKey },
          sharesLoopback: true,
        },
      );
      expect(said).toContain("Apache-2.0\n");
      expect(said).toContain("0 hello from /workspace\n");
    },
  );
});
