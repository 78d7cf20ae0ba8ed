import { describe, expect, it } from "vitest";
import { PreviewTokens } from "./preview-token.ts";

let nowMs = Date.UTC(2026, 0, 1);
let isValid = true;
const options = { nowMs: () => nowMs, isValidKey: () => isValid };
const tokens = new PreviewTokens({ ...options, key: Buffer.alloc(32, "a") });
const address = { sessionId: "ses_0123456789abcdef01234567", port: 8000 };

describe("a preview token", () => {
  it("gives access to its port of its session until it expires", () => {
    const { token, expiresAtMs } = tokens.make(address, 60);
    expect(expiresAtMs).toBe(nowMs + 60_000);
    expect(tokens.check(token, address)).toEqual({ expiresAtMs });
    nowMs += 59_999;
    expect(tokens.check(token, address)).toEqual({ expiresAtMs });
    nowMs += 1;
    expect(tokens.check(token, address)).toBeUndefined();
  });

  it("is invalid with another key, and cannot be moved to another session", () => {
    const { token, expiresAtMs } = tokens.make(address, 60, "key_0123456789abcdef");
    expect(tokens.check(token, address)).toEqual({ expiresAtMs, keyId: "key_0123456789abcdef" });
    const moved = [
      token.replace("key_0123456789abcdef", "key_0123456789abcdee"),
      token.replace(".key_0123456789abcdef", ""),
      tokens.make(address, 60).token.replace(".", ".key_0123456789abcdef."),
    ];
    for (const other of moved) expect(tokens.check(other, address)).toBeUndefined();
    isValid = false;
    expect(tokens.check(token, address)).toBeUndefined();
    expect(tokens.check(tokens.make(address, 60).token, address)).toBeDefined();
    isValid = true;
  });

  it("gives access to nothing else", () => {
    const { token } = tokens.make(address, 60);
    const others = [
      { ...address, port: 8001 },
      { ...address, port: 800 },
      { ...address, sessionId: "ses_0123456789abcdef01234568" },
    ];
    for (const other of others) expect(tokens.check(token, other)).toBeUndefined();
    const elsewhere = new PreviewTokens({ ...options, key: Buffer.alloc(32, "b") });
    expect(elsewhere.check(token, address)).toBeUndefined();
  });

  it("is invalid if any of its characters changes", () => {
    const { token } = tokens.make(address, 60);
    for (let at = 0; at < token.length; at += 1)
      for (const sign of ["0", "A", "z", ".", "_", "=", ""]) {
        const tampered = token.slice(0, at) + sign + token.slice(at + 1);
        if (tampered !== token)
          expect([tampered, tokens.check(tampered, address)]).toEqual([tampered, undefined]);
      }
  });

  it("has one spelling", () => {
    const { token } = tokens.make(address, 60);
    const [end = "", mac = ""] = token.split(".");
    const spellings = ["", ".", `${end}.`, `0${token}`, ` ${token}`, `${token} `, `${token}=`];
    // The last character of 32 bytes in base64url has four bits that a decoder ignores.
    const last = mac.slice(0, -1);
    for (const sign of "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
      if (`${end}.${last}${sign}` !== token) spellings.push(`${end}.${last}${sign}`);
    spellings.push(`${end.toUpperCase()}.${mac}`, `${end}.${mac.replaceAll("_", "/")}=`);
    for (const spelling of spellings)
      if (spelling !== token)
        expect([spelling, tokens.check(spelling, address)]).toEqual([spelling, undefined]);
  });
});
