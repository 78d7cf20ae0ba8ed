import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { SecretBox } from "./secret-box.ts";

const box = new SecretBox(randomBytes(32));

describe("SecretBox", () => {
  it("decrypts what it encrypted, and encrypts the same text differently each time", () => {
    const [one, other] = [box.seal("s3cr3t", "alice"), box.seal("s3cr3t", "alice")];
    expect(box.open(one, "alice")).toBe("s3cr3t");
    expect(one).not.toBe(other);
    expect(Buffer.from(one, "base64").toString("latin1")).not.toContain("s3cr3t");
  });

  it("decrypts nothing with another key, in another context, or after a change", () => {
    const sealed = box.seal("s3cr3t", "alice");
    expect(() => new SecretBox(randomBytes(32)).open(sealed, "alice")).toThrow();
    expect(() => box.open(sealed, "bob")).toThrow();
    const changed = Buffer.from(sealed, "base64");
    changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
    expect(() => box.open(changed.toString("base64"), "alice")).toThrow();
    expect(() => box.open(sealed.slice(0, 16), "alice")).toThrow();
  });

  it("computes fingerprints that need the key", () => {
    expect(box.fingerprint("a")).toBe(box.fingerprint("a"));
    expect(box.fingerprint("a")).not.toBe(box.fingerprint("b"));
    expect(new SecretBox(randomBytes(32)).fingerprint("a")).not.toBe(box.fingerprint("a"));
  });
});
