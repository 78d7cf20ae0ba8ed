/** Collects the files that a program has written, within the limits on their number and size. */
import type { FileEntry, Session } from "@sandkasten/sdk";
import { posix } from "node:path";
import { WORKSPACE } from "../sandbox-paths.ts";
import { matchesGlob } from "./glob.ts";

export interface ArtifactCaps {
  /** The limits for each artifact, and for all together. */
  readonly maxBytes: number;
  readonly maxCount: number;
}

export interface Artifact {
  readonly path: string;
  readonly size_bytes: number;
  readonly content_base64: string;
}

export interface OmittedArtifact {
  readonly path: string;
  readonly size_bytes: number;
  readonly reason: string;
}

export interface Artifacts {
  readonly artifacts: readonly Artifact[];
  /** Files that matched but are not returned, and why. */
  readonly omitted: readonly OmittedArtifact[];
  /** Patterns that matched nothing. */
  readonly unmatched: readonly string[];
}

/** How many omitted artifacts are named. */
const MAX_NAMED = 100;
const GROWN = "it was still being written, and became too large (max_artifact_bytes)";

export async function collectArtifacts(
  session: Session,
  patterns: readonly string[],
  { maxBytes, maxCount }: ArtifactCaps,
  signal: AbortSignal | undefined,
): Promise<Artifacts> {
  const artifacts: Artifact[] = [];
  const omitted: OmittedArtifact[] = [];
  const unmatched = new Set(patterns);
  let left = maxBytes;
  for await (const entry of session.files.list(WORKSPACE, { recursive: true, signal })) {
    const path = posix.relative(WORKSPACE, posix.normalize(entry.path));
    const matching = patterns.filter((pattern) => matchesGlob(path, relativePattern(pattern)));
    if (matching.length === 0 || !isFile(entry)) continue;
    for (const pattern of matching) unmatched.delete(pattern);
    const { sizeBytes } = entry;
    const reason = reasonToOmit(artifacts.length, sizeBytes, left, { maxBytes, maxCount });
    if (reason !== undefined) {
      if (omitted.length < MAX_NAMED) omitted.push({ path, size_bytes: sizeBytes, reason });
      continue;
    }
    // Reading one byte more shows whether the file has grown since it was listed.
    const bytes = await session.files.read(entry, { maxBytes: left + 1, signal });
    if (bytes.length > left) {
      if (omitted.length < MAX_NAMED)
        omitted.push({ path, size_bytes: bytes.length, reason: GROWN });
      continue;
    }
    left -= bytes.length;
    const content = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
    artifacts.push({ path, size_bytes: bytes.length, content_base64: content });
  }
  return { artifacts, omitted, unmatched: [...unmatched] };
}

/**
 * SECURITY: links are not followed, so that none leads out of the directory. Guarded by
 * run.serial.test.ts.
 */
function isFile({ type }: FileEntry): boolean {
  return type === "file";
}

function reasonToOmit(
  count: number,
  sizeBytes: number,
  left: number,
  { maxBytes, maxCount }: ArtifactCaps,
): string | undefined {
  if (count >= maxCount) return `${maxCount} artifacts are returned at most (max_artifacts_count)`;
  if (sizeBytes > maxBytes) return `larger than ${maxBytes} bytes (max_artifact_bytes)`;
  if (sizeBytes > left)
    return `all artifacts together exceed ${maxBytes} bytes (max_artifact_bytes)`;
  return undefined;
}

/** Patterns may name the working directory. */
function relativePattern(pattern: string): string {
  return pattern.replace(/^\/work(?:space)?\//, "");
}
