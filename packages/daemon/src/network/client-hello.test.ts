import { describe, expect, it } from "vitest";
import { readFirstWords } from "./client-hello.ts";
import { realHello } from "./testing/real-hello.ts";

const u8 = (value: number): Buffer => Buffer.from([value]);
const u16 = (value: number): Buffer => Buffer.from([value >> 8, value & 255]);
const u24 = (value: number): Buffer => Buffer.from([value >> 16, (value >> 8) & 255, value & 255]);
const vector = (size: 1 | 2, content: Buffer): Buffer =>
  Buffer.concat([size === 1 ? u8(content.length) : u16(content.length), content]);
const extension = (type: number, content: Buffer): Buffer =>
  Buffer.concat([u16(type), vector(2, content)]);
const hostName = (name: string | Buffer): Buffer =>
  Buffer.concat([u8(0), vector(2, Buffer.from(name))]);
const sni = (...names: readonly Buffer[]): Buffer => extension(0, vector(2, Buffer.concat(names)));

function message(...extensions: readonly Buffer[]): Buffer {
  const body = Buffer.concat([
    u16(0x0303),
    Buffer.alloc(32, 7),
    vector(1, Buffer.alloc(32, 8)),
    vector(2, Buffer.from([0x1a, 0x1a, 0x13, 0x01])),
    vector(1, u8(0)),
    vector(2, Buffer.concat(extensions)),
  ]);
  return Buffer.concat([u8(1), u24(body.length), body]);
}

const record = (content: Buffer): Buffer =>
  Buffer.concat([u8(22), u16(0x0301), vector(2, content)]);

function records(content: Buffer, size: number): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < content.length; at += size)
    parts.push(record(content.subarray(at, at + size)));
  return Buffer.concat(parts);
}

describe("readFirstWords", () => {
  it("finds the name that a real client sends", async () => {
    expect(readFirstWords(await realHello("api.example.com"))).toEqual({
      kind: "hello",
      sni: "api.example.com",
    });
  });

  it("finds that a real client sends no name", async () => {
    expect(readFirstWords(await realHello())).toEqual({ kind: "hello" });
  });

  it("waits for the rest, wherever a real hello is split", async () => {
    const hello = await realHello("api.example.com");
    for (let length = 0; length < hello.length; length += 1)
      expect([length, readFirstWords(hello.subarray(0, length)).kind]).toEqual([length, "more"]);
  });

  it("finds the name in a hello that is split over many records", () => {
    for (const size of [1, 3, 50])
      expect(readFirstWords(records(message(sni(hostName("a.example"))), size))).toEqual({
        kind: "hello",
        sni: "a.example",
      });
  });

  it("ignores GREASE, unknown extensions and the encrypted inner hello", () => {
    const hello = message(
      extension(0x0a0a, Buffer.alloc(0)),
      extension(0xfe0d, Buffer.alloc(200, 1)),
      sni(hostName("outer.example")),
      extension(0xfafa, u8(0)),
    );
    expect(readFirstWords(record(hello))).toEqual({ kind: "hello", sni: "outer.example" });
  });

  it("leaves other protocols alone", () => {
    for (const text of ["GET / HTTP/1.1\r\n", "SSH-2.0-x\r\n", "\0\0\0\b\x04\xd2\x16\x2f"])
      expect(readFirstWords(Buffer.from(text, "latin1"))).toEqual({ kind: "other" });
  });

  it.each([
    ["two names", record(message(sni(hostName("a.example"), hostName("b.example"))))],
    [
      "the extension twice",
      record(message(sni(hostName("a.example")), sni(hostName("b.example")))),
    ],
    [
      "a name of another type",
      record(message(sni(Buffer.concat([u8(1), vector(2, Buffer.from("a"))])))),
    ],
    ["an empty name", record(message(sni(hostName(""))))],
    ["a NUL in the name", record(message(sni(hostName("a.example\0.b.example"))))],
    ["a name beyond ASCII", record(message(sni(hostName(Buffer.from("bücher.example")))))],
    ["an empty list of names", record(message(sni()))],
    [
      "something after the names",
      record(message(extension(0, Buffer.concat([vector(2, hostName("a.example")), u8(0)])))),
    ],
    [
      "something after the extensions",
      record(Buffer.concat([u8(1), u24(message().length - 3), message().subarray(4), u8(0)])),
    ],
    [
      "another message in its record",
      record(Buffer.concat([message(sni(hostName("a.example"))), u8(11)])),
    ],
    [
      "another record inside it",
      Buffer.concat([
        record(message(sni(hostName("a.example"))).subarray(0, 20)),
        u8(23),
        u16(0x0303),
        vector(2, u8(0)),
      ]),
    ],
    ["an empty record", Buffer.concat([record(Buffer.alloc(0))])],
    [
      "a record of impossible length",
      Buffer.concat([u8(22), u16(0x0301), u16(0x4001), Buffer.alloc(10)]),
    ],
    ["an unknown version", Buffer.concat([u8(22), u16(0x0201), vector(2, message())])],
    ["another handshake message", record(Buffer.concat([u8(2), message().subarray(1)]))],
    [
      "a length of many megabytes",
      record(Buffer.concat([u8(1), u24(0xffffff), Buffer.alloc(100)])),
    ],
    [
      "a name that is longer than its extension",
      record(message(extension(0, Buffer.concat([u16(5), u8(0), u16(200), Buffer.from("a")])))),
    ],
  ])("refuses a hello with %s", (_fault, bytes) => {
    expect(readFirstWords(bytes).kind).toBe("malformed");
  });
});
