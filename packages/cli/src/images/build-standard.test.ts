/** The parts of a build that fetch from package indexes, with the real pip and npm and malicious packages. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import {
  access,
  constants,
  mkdir,
  mkdtemp,
  readFile,
  readlink,
  rm,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runTestCli } from "../testing/test-host.ts";
import { hooks, requireRoot, usualSuite } from "./build-standard.ts";
import { STANDARD_IMAGES, STANDARD_NAMES } from "./standard-images.ts";

const run = promisify(execFile);

let scratch: string;
let root: string;
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-standard-"));
  root = join(scratch, "root");
  await mkdir(join(root, "usr/lib/python3.11"), { recursive: true });
  await mkdir(join(root, "usr/local/bin"), { recursive: true });
});
afterEach(async () => {
  await rm(scratch, { recursive: true, force: true });
});

/** As mmdebstrap runs them. */
async function add(packages: { readonly pip?: string[]; readonly npm?: string[] }): Promise<void> {
  const env = { ...process.env, PIP_NO_INDEX: "1", PIP_FIND_LINKS: scratch, HOME: scratch };
  for (const hook of hooks({ debian: [], pip: [], npm: [], ...packages }))
    await run("sh", ["-c", hook, "sh", root], { env, cwd: scratch });
}

describe("hooks()", { timeout: 60_000 }, () => {
  it("unpacks wheels for the image's Python, with their scripts", async () => {
    const content = join(scratch, "content");
    await mkdir(join(content, "good-1.0.dist-info"), { recursive: true });
    await writeFile(join(content, "good.py"), "");
    const info = join(content, "good-1.0.dist-info");
    await writeFile(join(info, "METADATA"), "Metadata-Version: 2.1\nName: good\nVersion: 1.0\n");
    await writeFile(
      join(info, "WHEEL"),
      "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    );
    await writeFile(join(info, "entry_points.txt"), "[console_scripts]\nbe-good = good:main\n");
    await writeFile(join(info, "RECORD"), "");
    const wheel = join(scratch, "good-1.0-py3-none-any.whl");
    await run("python3", ["-m", "zipfile", "-c", wheel, "good.py", "good-1.0.dist-info"], {
      cwd: content,
    });
    await add({ pip: ["good==1.0"] });
    const packages = join(root, "usr/local/lib/python3.11/dist-packages");
    expect(existsSync(join(packages, "good.py"))).toBe(true);
    expect(existsSync(join(packages, "bin"))).toBe(false);
    const program = join(root, "usr/local/bin/be-good");
    expect(await readFile(program, "utf8")).toMatch(/^#!\/usr\/bin\/python3\n/);
    await access(program, constants.X_OK);
  });

  it("runs no code of a Python package, and so refuses one that must be built", async () => {
    const source = join(scratch, "evil-1.0");
    const harm = join(scratch, "harm");
    await mkdir(source);
    await writeFile(
      join(source, "setup.py"),
      `open(${JSON.stringify(harm)}, "w")\nimport setuptools\nsetuptools.setup(name="evil", version="1.0")\n`,
    );
    await writeFile(join(source, "PKG-INFO"), "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n");
    await run("tar", ["-czf", "evil-1.0.tar.gz", "evil-1.0"], { cwd: scratch });
    await expect(add({ pip: ["evil==1.0"] })).rejects.toThrow(/evil==1\.0/);
    expect(existsSync(harm)).toBe(false);
  });

  it("runs no scripts of an npm package, and links Node", async () => {
    const source = join(scratch, "package");
    const harm = join(scratch, "harm");
    await mkdir(join(source, "bin"), { recursive: true });
    await writeFile(join(source, "bin/node"), "#!/bin/sh\n", { mode: 0o755 });
    const scripts = { preinstall: `touch ${harm}`, postinstall: `touch ${harm}` };
    const description = { name: "node-linux-test", version: "1.0.0", scripts };
    await writeFile(join(source, "package.json"), JSON.stringify(description));
    await run("tar", ["-czf", "node.tgz", "package"], { cwd: scratch });
    await add({ npm: [join(scratch, "node.tgz")] });
    expect(existsSync(harm)).toBe(false);
    const link = join(root, "usr/local/bin/node");
    expect(await readlink(link)).toBe("../lib/node_modules/node-linux-test/bin/node");
    expect(await readFile(link, "utf8")).toBe("#!/bin/sh\n");
  });
});

describe("standard images", () => {
  it("pin every package that no signature covers", () => {
    for (const name of STANDARD_NAMES) {
      const { pip, npm } = STANDARD_IMAGES[name];
      for (const one of pip) expect(one).toMatch(/^[a-z0-9]+==\d+(\.\d+)+$/);
      for (const one of npm) expect(one).toMatch(/^[a-z0-9-]+@\d+\.\d+\.\d+$/);
    }
  });

  it("use this machine's Debian release, or a known one", async () => {
    const file = join(scratch, "os-release");
    await writeFile(file, "ID=debian\nVERSION_CODENAME=trixie\n");
    expect(await usualSuite(file)).toBe("trixie");
    await writeFile(file, "ID=ubuntu\nVERSION_CODENAME=noble\n");
    expect(await usualSuite(file)).toBe("bookworm");
  });

  it("need root, and a valid name", async () => {
    expect(() => requireRoot(false)).toThrow(/needs root/);
    expect((await runTestCli(["image", "build-standard", "ruby"])).code).toBe(2);
  });
});
