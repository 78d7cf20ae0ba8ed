/** The bill of materials in CycloneDX format: npm lists its packages, and Cargo's lockfile the crates. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Lock } from "./dependency-tree.ts";
import type { Places, Program } from "./npm-packages.ts";
import { root, sourceDateEpoch, version } from "./versions.ts";

const run = promisify(execFile);

interface Component {
  readonly "bom-ref": string;
  readonly [key: string]: unknown;
}

interface Bill {
  readonly metadata: { readonly component: object };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
  readonly [key: string]: unknown;
}

export async function writeBillOfMaterials(
  { outputDir }: Places,
  program: Program,
  lock: Lock,
): Promise<void> {
  const { stdout } = await run("npm", ["sbom", "--sbom-format", "cyclonedx"], {
    cwd: root,
    maxBuffer: 256 * 1024 * 1024,
  });
  const all = JSON.parse(stdout) as Bill;
  const npm = npmComponents(all, program, lock);
  const known = new Set(npm.map((component) => component["bom-ref"]));
  const dependencies = all.dependencies
    .filter(({ ref }) => known.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((one) => known.has(one)) }));
  const name = `sandkasten@${version}`;
  const direct = Object.entries(program.tree.dependencies).map((pair) => pair.join("@"));
  const components = [...npm, nodeComponent(), ...(await cratesOf("native/Cargo.lock"))];
  const bill = {
    ...all,
    metadata: {
      ...all.metadata,
      timestamp: new Date(sourceDateEpoch() * 1000).toISOString(),
      component: { ...all.metadata.component, type: "application", name: "sandkasten" },
    },
    components,
    dependencies: [{ ref: name, dependsOn: direct }, ...dependencies],
    serialNumber: serialNumber(components),
  };
  const file = join(outputDir, `sandkasten-${version}.cdx.json`);
  await writeFile(file, `${JSON.stringify(bill, null, 2)}\n`);
}

/** The published packages, of all that are installed here. */
function npmComponents(all: Bill, program: Program, lock: Lock): readonly Component[] {
  const byReference = new Map(all.components.map((component) => [component["bom-ref"], component]));
  const references = [...program.tree.placed].map(([location, source]) => {
    const installed = location.slice(
      location.lastIndexOf("node_modules/") + "node_modules/".length,
    );
    return `${lock[source]?.name ?? installed}@${lock[source]?.version}`;
  });
  return [...new Set(references)].toSorted().map((reference) => {
    const component = byReference.get(reference);
    if (component === undefined) throw new Error(`npm sbom does not list ${reference}`);
    return component;
  });
}

function nodeComponent(): Component {
  const node = process.versions.node;
  const reference = `node@${node}`;
  const purl = `pkg:generic/node@${node}`;
  return { "bom-ref": reference, type: "application", name: "node", version: node, purl };
}

async function cratesOf(path: string): Promise<readonly Component[]> {
  const text = await readFile(join(root, path), "utf8");
  const found = text.matchAll(
    /^\[\[package\]\]\nname = "(.+)"\nversion = "(.+)"\nsource = .*\nchecksum = "(.+)"$/gm,
  );
  return [...found].map(([, name, crateVersion, checksum]) => ({
    "bom-ref": `cargo:${name}@${crateVersion}`,
    type: "library",
    name,
    version: crateVersion,
    purl: `pkg:cargo/${name}@${crateVersion}`,
    hashes: [{ alg: "SHA-256", content: checksum }],
  }));
}

/** A UUID derived from the contents, so equal contents have the same one. */
function serialNumber(components: readonly Component[]): string {
  const hex = createHash("sha256").update(JSON.stringify(components)).digest("hex");
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
  ];
  return `urn:uuid:${parts.join("-")}-${hex.slice(20, 32)}`;
}
