/** Reads the archives of images: whatever is wrong with one, the image is at fault. */
import type { SandboxError } from "@sandkasten/protocol";
import { TarError } from "../tar/tar-error.ts";
import { readTar } from "../tar/tar-reader.ts";
import type { TarEntry, TarOptions } from "../tar/tar-reader.ts";
import { invalidImage } from "./image-failure.ts";

export type ImageArchiveOptions = Pick<TarOptions, "endMarker">;

export async function* readImageArchive(
  source: AsyncIterable<Buffer>,
  { endMarker }: ImageArchiveOptions,
): AsyncGenerator<TarEntry> {
  try {
    for await (const entry of readTar(source, { endMarker }))
      yield { ...entry, body: () => contentOf(entry) };
  } catch (error) {
    throw failureOf(error);
  }
}

async function* contentOf(entry: TarEntry): AsyncGenerator<Buffer> {
  try {
    yield* entry.body();
  } catch (error) {
    throw failureOf(error);
  }
}

function failureOf(error: unknown): unknown {
  return error instanceof TarError ? invalidArchive(error) : error;
}

export function invalidArchive(cause: TarError): SandboxError {
  const { message, advice } = cause;
  return invalidImage(advice === undefined ? message : `${message} ${advice}`, { cause });
}
