import fc from "fast-check";
import { expect, test } from "vitest";
import { decodeBase64, encodeBase64, encodeBase64Url } from "./base64.ts";

test("all bytes survive, and the text is standard base64", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      const text = encodeBase64(bytes);
      expect(text).toBe(Buffer.from(bytes).toString("base64"));
      expect(decodeBase64(text)).toEqual(new Uint8Array(bytes));
    }),
  );
});

test("supports a megabyte", () => {
  const bytes = new Uint8Array(1_048_577).map((_, index) => index % 251);
  expect(Buffer.from(decodeBase64(encodeBase64(bytes))).equals(Buffer.from(bytes))).toBe(true);
});

test("text for a subprotocol has only allowed characters", () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      expect(encodeBase64Url(text)).toBe(Buffer.from(text).toString("base64url"));
    }),
  );
});
