/** `SHA256SUMS`, for `sha256sum --check`. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";

export async function writeChecksums(directory: string): Promise<void> {
  const lines: string[] = [];
  for (const name of (await readdir(directory)).toSorted()) {
    const digest = createHash("sha256");
    await pipeline(createReadStream(join(directory, name)), digest);
    lines.push(`${digest.digest("hex")}  ${name}\n`);
  }
  await writeFile(join(directory, "SHA256SUMS"), lines.join(""));
}
