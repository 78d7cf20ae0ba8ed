/** Repositories for package managers and git: one of each kind, with one package that says hello. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { writeTar } from "../../tar-archive.ts";

const run = promisify(execFile);

export type Files = Map<string, Uint8Array | string>;

async function inDirectory<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
  try {
    return await work(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function filesBelow(directory: string, prefix: string): Promise<Files> {
  const files: Files = new Map();
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    files.set(`${prefix}/${path.slice(directory.length + 1)}`, await readFile(path));
  }
  return files;
}

/** A bare repository at /hello.git, as a plain web server serves it. */
export function gitRepository(): Promise<Files> {
  return inDirectory(async (directory) => {
    const git = (...args: readonly string[]): Promise<unknown> =>
      run("git", ["-c", "user.name=t", "-c", "user.email=t@t.test", ...args], { cwd: directory });
    await git("init", "--quiet", "--initial-branch=main", "work");
    await writeFile(join(directory, "work/hello.txt"), "hello from git\n");
    await git("-C", "work", "add", ".");
    await git("-C", "work", "commit", "--quiet", "-m", "hello");
    await git("clone", "--quiet", "--bare", "work", "hello.git");
    await git("-C", "hello.git", "update-server-info");
    return await filesBelow(join(directory, "hello.git"), "/hello.git");
  });
}

const WHEEL = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("sandkasten_hello.py", "print('hello from pip')\\n")
    info = "sandkasten_hello-1.0.dist-info/"
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: sandkasten-hello\\nVersion: 1.0\\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(info + "RECORD", "")
`;

/** A package index at /simple/. */
export function pythonIndex(): Promise<Files> {
  return inDirectory(async (directory) => {
    const name = "sandkasten_hello-1.0-py3-none-any.whl";
    await run("python3", ["-c", WHEEL, join(directory, name)]);
    return new Map<string, Uint8Array | string>([
      ["/simple/sandkasten-hello/", `<a href="/${name}">${name}</a>`],
      [`/${name}`, await readFile(join(directory, name))],
    ]);
  });
}

/** A registry whose tarballs are at `origin`. */
export function npmRegistry(origin: () => string): Files {
  const manifest = { name: "sandkasten-hello", version: "1.0.0", main: "index.js" };
  const file = (path: string, text: string) =>
    ({ path: `package/${path}`, type: "file", mode: 0o644, bytes: Buffer.from(text) }) as const;
  const tarball = gzipSync(
    writeTar([
      file("package.json", JSON.stringify(manifest)),
      file("index.js", "console.log('hello from npm')\n"),
    ]),
  );
  const integrity = `sha512-${createHash("sha512").update(tarball).digest("base64")}`;
  const files: Files = new Map();
  files.set("/hello.tgz", tarball);
  const dist = { integrity, tarball: `${origin()}/hello.tgz` };
  const versions = { "1.0.0": { ...manifest, dist } };
  const packument = { name: manifest.name, "dist-tags": { latest: "1.0.0" }, versions };
  files.set("/sandkasten-hello", JSON.stringify(packument));
  return files;
}

/** A flat repository of Debian packages at /debian/. */
export function debianRepository(): Promise<Files> {
  return inDirectory(async (directory) => {
    await mkdir(join(directory, "hello/DEBIAN"), { recursive: true });
    const control =
      "Package: sandkasten-hello\nVersion: 1.0\nArchitecture: all\n" +
      "Maintainer: t <t@t.test>\nDescription: says hello\n";
    await writeFile(join(directory, "hello/DEBIAN/control"), control);
    await writeFile(join(directory, "hello/hello.txt"), "hello from apt\n");
    await run("dpkg-deb", ["--build", "--root-owner-group", "hello", "hello.deb"], {
      cwd: directory,
    });
    const deb = await readFile(join(directory, "hello.deb"));
    const sha256 = createHash("sha256").update(deb).digest("hex");
    const packages = `${control}Filename: ./hello.deb\nSize: ${String(deb.byteLength)}\nSHA256: ${sha256}\n`;
    return new Map<string, Uint8Array | string>([
      ["/debian/Packages", packages],
      ["/debian/hello.deb", deb],
    ]);
  });
}
