/** The Python client as a wheel and as a source archive, built by its own backend, setuptools. */
import { execFile } from "node:child_process";
import { cp, mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import type { Places } from "./npm-packages.ts";
import { packTarball, unpackTarball } from "./tarball.ts";
import { root, sourceDateEpoch, version } from "./versions.ts";

const run = promisify(execFile);

/** What a tool such as pip calls; without a separate environment, which would need an index. */
const build = `
import sys
from setuptools import build_meta
directory = sys.argv[1]
build_meta.build_wheel(directory)
build_meta.build_sdist(directory)
`;

export async function buildPython({ outputDir, stagingDir }: Places): Promise<void> {
  // A copy, because setuptools writes next to the sources.
  const directory = join(stagingDir, "python");
  const source = join(root, "clients/python");
  for (const name of ["pyproject.toml", "README.md", "src"])
    await cp(join(source, name), join(directory, name), {
      recursive: true,
      filter: (path) => !/__pycache__|\.egg-info$|\.mypy_cache/.test(path),
    });
  await cp(join(root, "LICENSE"), join(directory, "LICENSE"));
  await run(join(root, ".toolchain/python/bin/python"), ["-c", build, outputDir], {
    cwd: directory,
    env: { ...process.env, SOURCE_DATE_EPOCH: String(sourceDateEpoch()) },
  });
  await normalise(join(outputDir, `sandkasten_client-${version}.tar.gz`), stagingDir);
}

/** setuptools writes the build time into source archives, so they are repacked. */
async function normalise(archive: string, stagingDir: string): Promise<void> {
  const directory = join(stagingDir, "python-sdist");
  await mkdir(directory);
  await unpackTarball(archive, directory);
  const prefix = basename(archive, ".tar.gz");
  await packTarball(join(directory, prefix), archive, { prefix, compress: true });
}
