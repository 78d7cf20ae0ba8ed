/** Builds the project's images on an engine without a registry, from bases that replace the real ones. */
import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { debianRootfs } from "../../packages/daemon/src/images/testing/debian-rootfs.ts";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "../..");
const CACHE_DIR = process.env["SANDKASTEN_TEST_CACHE"] ?? "/var/cache/sandkasten-test";
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
export const BASES = {
  debian: "test-bases-debian:latest",
  /** Like ubuntu:24.04 it has a user with the id that sandboxes use. */
  ubuntu: "test-bases-ubuntu:latest",
  /** Node where the official image has it, and in place of npm a program that prints a version. */
  node: "test-bases-node:latest",
};
export const STAND_IN_NPM_VERSION = "0.0.0-stand-in";

/** Builds all of them, and returns the script's output. */
export async function buildImages(engine: string): Promise<string> {
  await makeBases(engine);
  const { stdout } = await run(
    join(ROOT, "images/build.sh"),
    ["--engine", engine, "--base", BASES.ubuntu, "--node-image", BASES.node],
    { maxBuffer: MAX_OUTPUT_BYTES },
  );
  return stdout;
}

async function makeBases(engine: string): Promise<void> {
  const docker = async (...args: readonly string[]): Promise<string> =>
    (await run("docker", ["-H", engine, ...args])).stdout;
  const tarball = await debianRootfs(CACHE_DIR);
  if (tarball === undefined)
    throw new Error(`no Debian root can be kept in ${CACHE_DIR}; set SANDKASTEN_TEST_CACHE`);
  await docker("import", tarball, BASES.debian);
  const context = await mkdtemp(join(tmpdir(), "sandkasten-bases-"));
  try {
    const npm = join(context, "npm/bin");
    await mkdir(npm, { recursive: true });
    await copyFile(process.execPath, join(context, "node"));
    for (const name of ["npm-cli.js", "npx-cli.js"])
      await writeFile(
        join(npm, name),
        `#!/usr/bin/env node\nconsole.log("${STAND_IN_NPM_VERSION}");\n`,
        { mode: 0o755 },
      );
    const dockerfile = join(context, "Dockerfile");
    await writeFile(
      dockerfile,
      `FROM ${BASES.debian}\nRUN useradd --create-home --uid 1000 ubuntu\n`,
    );
    await docker("build", "--tag", BASES.ubuntu, context);
    await writeFile(
      dockerfile,
      [
        `FROM ${BASES.debian}`,
        "COPY node /usr/local/bin/node",
        "COPY npm /usr/local/lib/node_modules/npm",
        "RUN useradd --create-home --uid 1000 node",
      ].join("\n"),
    );
    await docker("build", "--tag", BASES.node, context);
  } finally {
    await rm(context, { recursive: true });
  }
}
