/** Text that is truncated in the middle. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { headAndTail } from "./head-and-tail.ts";

it("does not change what fits", () => {
  expect(headAndTail("abc", 3)).toEqual({ text: "abc", headBytes: 3, omittedBytes: 0 });
  expect(headAndTail("", 0)).toEqual({ text: "", headBytes: 0, omittedBytes: 0 });
});

it("keeps the beginning and the end, and says what is missing", () => {
  expect(headAndTail("0123456789", 4)).toEqual({
    text: "01\n[… 6 bytes omitted …]\n89",
    headBytes: 2,
    omittedBytes: 6,
  });
});

it("keeps whole characters of both ends, within the bytes, and counts what it omits", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", maxLength: 200 }), fc.nat(100), (text, maxBytes) => {
      const size = Buffer.byteLength(text);
      const cut = headAndTail(text, maxBytes);
      if (size <= maxBytes) return cut.text === text;
      const [head = "", tail = ""] = cut.text.split(/\n\[… \d+ bytes omitted …\]\n/);
      expect(text.startsWith(head)).toBe(true);
      expect(text.endsWith(tail)).toBe(true);
      expect(Buffer.byteLength(head)).toBe(cut.headBytes);
      expect(Buffer.byteLength(head)).toBeLessThanOrEqual(Math.ceil(maxBytes / 2));
      // A character of up to four bytes can start before the tail does.
      expect(Buffer.byteLength(tail)).toBeLessThanOrEqual(Math.floor(maxBytes / 2) + 3);
      expect(cut.omittedBytes).toBe(size - Buffer.byteLength(head) - Buffer.byteLength(tail));
      return true;
    }),
  );
});
