/** In-memory paths: text, in which a byte that is not UTF-8 is a lone surrogate. */
import type { NamedPath } from "@sandkasten/protocol";

const ESCAPE = 0xdc00;

export function pathOfBytes(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return Array.from(bytes, (byte) =>
      String.fromCharCode(byte < 0x80 ? byte : ESCAPE + byte),
    ).join("");
  }
}

export function namedPath(path: string): NamedPath {
  if (path.isWellFormed()) return { path };
  const bytes = Buffer.concat(
    Array.from(path, (sign) => {
      const code = sign.charCodeAt(0);
      const isEscaped = sign.length === 1 && code >= ESCAPE && code <= ESCAPE + 0xff;
      return isEscaped ? Buffer.of(code - ESCAPE) : Buffer.from(sign);
    }),
  );
  return { path: path.toWellFormed(), rawPath: bytes.toString("base64") };
}

/** The path that a `NamedPath` was created from. */
export function exactPath({ path, rawPath }: NamedPath): string {
  return rawPath === undefined ? path : pathOfBytes(Buffer.from(rawPath, "base64"));
}
