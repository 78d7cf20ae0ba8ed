import { createSocket } from "node:dgram";
import { afterAll, beforeAll, expect, test } from "vitest";
import { nameResolver } from "./name-resolver.ts";
import type { ResolveName } from "./name-resolver.ts";

/** A name server that knows two IPv4 addresses for `a.test`, and one IPv6 address. */
const server = createSocket("udp4");
let resolve: ResolveName;

beforeAll(async () => {
  server.on("message", (query, from) => {
    const end = query.indexOf(0, 12) + 5;
    const wantsV6 = query.readUInt16BE(end - 4) === 28;
    const isKnown = query.subarray(13, 14).toString() === "a";
    const addresses = wantsV6 ? ["20010db8000000000000000000000001"] : ["c0000201", "c0000202"];
    const records = (isKnown ? addresses : []).map((hex) =>
      Buffer.from(
        `c00c${wantsV6 ? "001c" : "0001"}00010000000500${wantsV6 ? "10" : "04"}${hex}`,
        "hex",
      ),
    );
    const header = Buffer.from(query.subarray(0, 12));
    header.writeUInt16BE(isKnown ? 0x8180 : 0x8183, 2);
    header.writeUInt16BE(records.length, 6);
    header.fill(0, 8);
    server.send(Buffer.concat([header, query.subarray(12, end), ...records]), from.port);
  });
  await new Promise<void>((done) => server.bind(0, "127.0.0.1", done));
  resolve = nameResolver([`127.0.0.1:${String(server.address().port)}`]);
});

afterAll(() => new Promise<void>((done) => server.close(() => done())));

test("a name resolves to all its addresses, IPv4 first", async () => {
  expect(await resolve("a.test")).toEqual(["192.0.2.1", "192.0.2.2", "2001:db8::1"]);
});

test("a name that does not exist is an error", async () => {
  await expect(resolve("b.test")).rejects.toMatchObject({ code: "ENOTFOUND" });
});
