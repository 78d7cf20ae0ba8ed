/** Base64 with what every runtime provides. */

const BLOCK_BYTES = 0x8000;

/** Bytes as base64, with padding. */
export function encodeBase64(bytes: Uint8Array): string {
  const blocks: string[] = [];
  // In blocks, since the bytes become call arguments, whose number is limited.
  for (let from = 0; from < bytes.length; from += BLOCK_BYTES) {
    blocks.push(String.fromCharCode(...bytes.subarray(from, from + BLOCK_BYTES)));
  }
  return btoa(blocks.join(""));
}

/** The bytes of a base64 text. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index++) bytes[index] = binary.charCodeAt(index);
  return bytes;
}

/** Text as base64 for URLs and subprotocol names: no padding, no `+`, no `/`. */
export function encodeBase64Url(text: string): string {
  return encodeBase64(new TextEncoder().encode(text))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}
