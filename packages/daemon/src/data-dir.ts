/**
 * Checks that the data directory is usable and not another program's, before anything is written
 * there.
 */
import { randomUUID } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import type { Config } from "./config/config.ts";
import { makeDirectory } from "./make-directory.ts";
import { foreignerAt } from "./store/sqlite/foreign-database.ts";
import { hasForeignImages, IMAGES_DIRECTORY } from "./images/image-directories.ts";
import type { Foreigner } from "./store/sqlite/foreign-database.ts";

/** The older Sandkasten's database has this name, whatever ours is called. */
const OLDER_DATABASE = "sandkasten.db";

export async function prepareDataDir({
  dataDir,
  dbPath,
}: Pick<Config, "dataDir" | "dbPath">): Promise<void> {
  for (const path of new Set([dbPath, join(dataDir, OLDER_DATABASE)])) {
    const foreigner = await foreignerAt(path).catch((cause: unknown) => {
      throw unusable("db_path", path, cause);
    });
    if (foreigner === undefined) continue;
    if (dirname(path) === dataDir) throw foreign(path, DATABASES[foreigner], "data_dir", dataDir);
    throw foreign(path, DATABASES[foreigner], "db_path", path);
  }
  const images = join(dataDir, IMAGES_DIRECTORY);
  const areForeign = await hasForeignImages(images).catch((cause: unknown) => {
    throw unusable("data_dir", dataDir, cause);
  });
  if (areForeign) throw foreign(images, "has the images of another program", "data_dir", dataDir);
  try {
    await makeDirectory(dataDir, 0o700);
    const probe = join(dataDir, `.probe-${randomUUID()}`);
    await writeFile(probe, "", { flag: "wx", mode: 0o600 });
    await rm(probe);
  } catch (cause) {
    throw unusable("data_dir", dataDir, cause);
  }
}

const DATABASES: Readonly<Record<Foreigner, string>> = {
  older:
    "is the database of the older Sandkasten that was written in Go, which uses the same paths",
  unknown: "is the database of another program",
};

function foreign(path: string, whose: string, key: string, place: string): SandboxError {
  return new SandboxError(
    "CONFLICT",
    `${path} ${whose}; this daemon cannot take it over and has changed nothing. ` +
      `Choose another ${key}, or stop that program and move ${place} away`,
    { details: { reason: `foreign_${key}` } },
  );
}

function unusable(key: string, path: string, cause: unknown): SandboxError {
  const reason = (cause as NodeJS.ErrnoException).code ?? String(cause);
  return new SandboxError(
    "INVALID_REQUEST",
    `${key} is ${path}, which is not writable (${reason}); choose a directory that the daemon can write to`,
    { cause },
  );
}
