import { once } from "node:events";
import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { FastifyReply, FastifyRequest } from "fastify";
import { describe, expect, it } from "vitest";
import { RequestMemory } from "./request-memory.ts";

const MIB = 1024 * 1024;
const exceeded = expect.objectContaining({ code: "QUOTA_EXCEEDED" }) as Error;

describe("the memory of requests", () => {
  it("is limited for each owner, whose requests make room when they end", () => {
    const memory = new RequestMemory();
    const [first, second] = [memory.hold("alice"), memory.hold("alice")];
    first.add(100 * MIB);
    expect(() => second.add(29 * MIB)).toThrow(exceeded);
    second.add(28 * MIB);
    memory.hold("bob").add(128 * MIB);
    first.release();
    first.release();
    second.add(100 * MIB);
    expect(() => second.add(1)).toThrow(exceeded);
  });

  it("is limited for all owners together", () => {
    const memory = new RequestMemory();
    const holds = ["a", "b", "c", "d", "e"].map((owner) => memory.hold(owner));
    for (const held of holds.slice(0, 4)) held.add(128 * MIB);
    expect(() => holds[4]?.add(1)).toThrow(exceeded);
    expect(holds[4]?.tryAdd(1)).toBe(false);
    holds[0]?.release();
    holds[4]?.add(128 * MIB);
  });

  it("is not taken by bytes that arrive after their request has ended", () => {
    const memory = new RequestMemory();
    const late = memory.hold("alice");
    late.release();
    late.add(200 * MIB);
    memory.hold("alice").add(128 * MIB);
  });

  it("is not taken for a response whose client disconnected before it was ready", async () => {
    const memory = new RequestMemory();
    const raw = new ServerResponse(new IncomingMessage(new Socket()));
    raw.destroy();
    await once(raw, "close");
    const request = { caller: { owner: "alice" } } as FastifyRequest;
    memory.holdFor(request, { raw } as FastifyReply).add(128 * MIB);
    memory.hold("alice").add(128 * MIB);
  });
});
