import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { LEAST_NODE } from "../../packages/cli/src/least-node.ts";
import { debianDependencies } from "./debian-package.ts";
import { readManifest, root, version } from "./versions.ts";

const text = (path: string): string => readFileSync(join(root, path), "utf8");

describe("the version of the root's package.json", () => {
  const manifests = globSync("packages/*/package.json", { cwd: root });

  test.each(manifests)("is that of %s, and of our packages that it depends on", (path) => {
    const manifest = JSON.parse(text(path)) as Record<string, unknown>;
    expect(manifest["version"]).toBe(version);
    const kinds = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];
    for (const [name, wanted] of kinds.flatMap((kind) =>
      Object.entries<string>(Object(manifest[kind])),
    ))
      if (name.startsWith("@sandkasten/")) expect(`${name} ${wanted}`).toBe(`${name} ${version}`);
  });

  test("is that of the native programs and of the Python client", () => {
    expect(/^version = "(.*)"/m.exec(text("native/Cargo.toml"))?.[1]).toBe(version);
    expect(/^version = "(.*)"/m.exec(text("clients/python/pyproject.toml"))?.[1]).toBe(version);
  });

  test("has an entry in the changelog", () => {
    expect(text("CHANGELOG.md")).toMatch(
      new RegExp(`^## ${version.replaceAll(".", "\\.")}\\b`, "m"),
    );
  });
});

test("the minimum Node version is the same in the code, in package.json and in the scripts", () => {
  expect(readManifest(".").engines["node"]).toBe(`>=${LEAST_NODE}`);
  expect(/^minimum_node=(.*)$/m.exec(text("scripts/toolchain.sh"))?.[1]).toBe(LEAST_NODE);
});

test("the Debian package depends on what set-up installs for a daemon", () => {
  const packages = [...text("scripts/apt-packages.txt").matchAll(/^start\s+(\S+)/gm)].map(
    ([, name]) => name,
  );
  expect(packages).toContain("crun");
  const alternatives = debianDependencies.map((dependency) => dependency.split(" | ")[0]);
  // npm is for the clone; the library is for the Node that the package contains.
  expect(new Set(alternatives.filter((name) => name !== "libstdc++6"))).toEqual(
    new Set(packages.filter((name) => name !== "npm")),
  );
});
