/**
 * The daemon's container image as an archive for `docker load`: a small Debian, Node and the
 * program. Its configuration matches images/daemon/Dockerfile.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { chmod, cp, mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { STANDARD_PATH } from "../../packages/daemon/src/find-program.ts";
import { layOutProgram } from "./debian-package.ts";
import type { Packed, Places, Platform } from "./npm-packages.ts";
import { packTarball, type TarOptions } from "./tarball.ts";
import { root, sourceDateEpoch, version } from "./versions.ts";

const user = { name: "sandkasten", id: 10_000 };

/** @param base - A root file system as a tar archive. */
export async function buildImage(
  { outputDir, stagingDir }: Places,
  program: Packed,
  platform: Platform,
  base: string,
): Promise<string> {
  const tree = join(stagingDir, "image-layer");
  await layOutProgram(join(tree, "opt/sandkasten"), program, platform);
  await cp(
    join(root, "images/daemon/healthcheck.mjs"),
    join(tree, "opt/sandkasten/healthcheck.mjs"),
  );
  await mkdir(join(tree, "usr/local/bin"), { recursive: true });
  await symlink("/opt/sandkasten/bin/node", join(tree, "usr/local/bin/node"));
  await symlink("/opt/sandkasten/dist/main.js", join(tree, "usr/local/bin/sandkasten"));
  await writeUsers(tree);
  const data = join(stagingDir, "image-data");
  for (const name of ["var/lib/sandkasten", "shared-sandboxes"])
    await mkdir(join(data, name), { recursive: true });
  const own = { directories: ["var/lib/sandkasten"], owner: user.id, mode: "u=rwx,go=" };
  const shared = { directories: ["shared-sandboxes"], mode: "u=rwx,go=x" };

  const archive = join(stagingDir, "image");
  await mkdir(archive);
  const layers = [
    await addLayer(archive, base),
    await addLayer(archive, await packed(stagingDir, tree, "program")),
    await addLayer(archive, await packed(stagingDir, data, "own", own)),
    await addLayer(archive, await packed(stagingDir, data, "shared", shared)),
  ];
  const config = JSON.stringify(imageConfig(layers, platform));
  const name = `${createHash("sha256").update(config).digest("hex")}.json`;
  await writeFile(join(archive, name), config);
  const tags = [`sandkasten:${version}`, "sandkasten:latest"];
  const layerFiles = layers.map((digest) => `${digest}.tar`);
  const manifest = [{ Config: name, RepoTags: tags, Layers: layerFiles }];
  await writeFile(join(archive, "manifest.json"), JSON.stringify(manifest));
  const file = join(outputDir, `sandkasten-${version}-image-${platform.name}.tar.gz`);
  await packTarball(archive, file, { compress: true, prefix: "" });
  await rm(archive, { recursive: true });
  return file;
}

async function packed(
  stagingDir: string,
  tree: string,
  name: string,
  options: TarOptions = {},
): Promise<string> {
  const file = join(stagingDir, `layer-${name}.tar`);
  await packTarball(tree, file, options);
  return file;
}

/** @returns The layer's digest. */
async function addLayer(archive: string, file: string): Promise<string> {
  const digest = createHash("sha256");
  await pipeline(createReadStream(file), digest);
  const name = digest.digest("hex");
  const isOurs = file.includes("layer-");
  await (isOurs ? rename : cp)(file, join(archive, `${name}.tar`));
  return name;
}

/** SECURITY: the daemon is not root in its container: see images/daemon/Dockerfile. */
async function writeUsers(tree: string): Promise<void> {
  const { name, id } = user;
  await mkdir(join(tree, "etc"), { recursive: true });
  const files = {
    passwd: [
      "root:x:0:0:root:/root:/bin/sh",
      `${name}:x:${id}:${id}::/var/lib/sandkasten:/bin/sh`,
      "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
    ],
    group: ["root:x:0:", `${name}:x:${id}:`, "nogroup:x:65534:"],
  };
  for (const [file, lines] of Object.entries(files)) {
    await writeFile(join(tree, "etc", file), `${lines.join("\n")}\n`);
    await chmod(join(tree, "etc", file), 0o644);
  }
}

function imageConfig(layers: readonly string[], platform: Platform): object {
  const created = new Date(sourceDateEpoch() * 1000).toISOString();
  const seconds = 1_000_000_000;
  return {
    architecture: platform.debian,
    os: "linux",
    created,
    config: {
      User: user.name,
      WorkingDir: "/var/lib/sandkasten",
      Volumes: { "/var/lib/sandkasten": {} },
      ExposedPorts: { "8080/tcp": {} },
      StopSignal: "SIGTERM",
      Entrypoint: ["sandkasten"],
      Cmd: ["daemon"],
      Env: [
        `PATH=${STANDARD_PATH}`,
        "NODE_ENV=production",
        "SANDKASTEN_BACKEND=docker",
        "SANDKASTEN_DATA_DIR=/var/lib/sandkasten",
        "SANDKASTEN_DOCKER_CONFIG_DIR=/etc/sandkasten/docker",
        "SANDKASTEN_LISTEN=0.0.0.0:8080",
      ],
      Healthcheck: {
        Test: ["CMD", "node", "/opt/sandkasten/healthcheck.mjs"],
        Interval: 5 * seconds,
        Timeout: 5 * seconds,
        StartPeriod: 30 * seconds,
        Retries: 3,
      },
      Labels: {
        "org.opencontainers.image.title": "sandkasten",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
      },
    },
    rootfs: { type: "layers", diff_ids: layers.map((digest) => `sha256:${digest}`) },
    history: layers.map(() => ({ created, created_by: "npm run release" })),
  };
}
