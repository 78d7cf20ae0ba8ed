import { afterEach, describe, expect, it } from "vitest";
import type { EgressConnection } from "../network/egress.ts";
import type { SandboxSpec } from "../ports/backend.ts";
import { ALICE, BOB, CoreFixture, overriding } from "./testing/core-fixture.ts";

let fixture: CoreFixture;

afterEach(async () => {
  await fixture[Symbol.asyncDispose]();
});

const CONNECTION: EgressConnection = {
  target: { name: "a.example", port: 443 },
  via: "transparent",
  address: "93.184.216.34",
};

async function start(network: readonly string[] = ["full"]): Promise<CoreFixture> {
  fixture = await CoreFixture.start({ network });
  return fixture;
}

describe("the network of a session", () => {
  it("is none unless the request asks for one", async () => {
    const { core } = await start();
    const { session } = await core.sessions.create(ALICE, {});
    expect(session.network).toBe("none");
  });

  it("is what the request asks for, and survives a restart of the daemon", async () => {
    const { core } = await start();
    const network = { allow: ["a.example:443", "full"] };
    const { session } = await core.sessions.create(ALICE, { network });
    expect(session.network).toEqual({ allow: ["a.example:443", "*:*"] });
    await fixture.restart();
    const found = await fixture.core.sessions.get(ALICE, session.id);
    expect(found.network).toEqual({ allow: ["a.example:443", "*:*"] });
  });

  it("uses a sandbox that can reach the gateway, and a pooled one only if it can", async () => {
    const specs: SandboxSpec[] = [];
    const pool = [{ image: "host", profile: "restricted" as const, size: 1, network: true }];
    fixture = await CoreFixture.start({
      network: ["full"],
      settings: { pool },
      wrap: (backend) =>
        overriding(backend, {
          create: (spec, signal) => {
            specs.push(spec);
            return backend.create(spec, signal);
          },
        }),
    });
    const { core } = fixture;
    await core.pool.settled();
    const { session: plain } = await core.sessions.create(ALICE, {});
    expect(plain.acquireSource).toBe("cold");
    const network = { allow: ["a.example"] };
    const { session: pooled } = await core.sessions.create(ALICE, { network });
    expect(pooled.acquireSource).toBe("pool");
    const kinds = new Map(specs.map((spec) => [spec.id, spec.network]));
    expect(kinds.get(plain.id)).toBe("none");
    expect(kinds.get(pooled.id)).toBe("gateway");
  });

  it("cannot exceed what the administrator or the API key allows, even later", async () => {
    const { core } = await start(["*.alice.example", "*.bob.example"]);
    await expect(core.sessions.create(BOB, { network: "full" })).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: expect.stringContaining("the administrator's `network.allow`"),
    });
    const beyondKey = { network: { allow: ["x.alice.example"] } };
    await expect(core.sessions.create(BOB, beyondKey)).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: expect.stringContaining("`network_allow` of this API key"),
    });
    const { session } = await core.sessions.create(BOB, { network: true });
    expect(session.network).toEqual({ allow: ["*.bob.example:80,443"] });
    for (const network of [
      "full",
      { allow: ["x.alice.example"] },
      { allow: ["10.0.0.0/8"] },
    ] as const)
      await expect(core.networks.change(BOB, session.id, network)).rejects.toMatchObject({
        code: "PERMISSION_DENIED",
      });
    expect((await core.sessions.get(BOB, session.id)).network).toEqual({
      allow: ["*.bob.example:80,443"],
    });
  });

  it("can be changed while the session is active, and the change survives a restart", async () => {
    const { core } = await start();
    const { session } = await core.sessions.create(ALICE, { network: { allow: [] } });
    const policy = (): boolean =>
      fixture.networks
        .of({ id: session.id, owner: "alice", network: { allow: [] } })
        .policy()
        .decide({ name: "a.example", port: 443 }).allowed;
    expect(policy()).toBe(false);
    const changed = await core.networks.change(ALICE, session.id, { allow: ["a.example"] });
    expect(changed.network).toEqual({ allow: ["a.example:80,443"] });
    expect(policy()).toBe(true);
    await fixture.restart();
    expect((await fixture.core.sessions.get(ALICE, session.id)).network).toEqual(changed.network);
    const none = await fixture.core.networks.change(ALICE, session.id, "none");
    expect(none.network).toEqual({ allow: [] });
    expect(policy()).toBe(false);
  });

  it("cannot be given to a session that was created without one", async () => {
    const { core } = await start();
    const { session } = await core.sessions.create(ALICE, {});
    await expect(
      core.networks.change(ALICE, session.id, { allow: ["a.example"] }),
    ).rejects.toMatchObject({ code: "CONFLICT", message: expect.stringContaining('"allow": []') });
  });

  it("is as inaccessible to other tenants as the session itself", async () => {
    const { core } = await start();
    const { session } = await core.sessions.create(ALICE, { network: { allow: [] } });
    const stranger = { code: "SESSION_NOT_FOUND" };
    const page = { after: 0, limit: 1 };
    await expect(core.networks.change(BOB, session.id, "none")).rejects.toMatchObject(stranger);
    await expect(core.networks.egress(BOB, session.id, page)).rejects.toMatchObject(stranger);
    const follow = core.networks.follow(BOB, session.id, 0, new AbortController().signal);
    await expect(Array.fromAsync(follow)).rejects.toMatchObject(stranger);
  });
});

describe("the record of a session's connections", () => {
  it("contains open connections, then ended ones, even after the session's end", async () => {
    const { core, networks } = await start();
    const { session } = await core.sessions.create(ALICE, { network: "full" });
    const { observer } = networks.of({ id: session.id, owner: "alice", network: "none" });
    observer.opened(CONNECTION);
    observer.moved(CONNECTION, 1, 2);
    const before = await core.networks.egress(ALICE, session.id, { after: 0, limit: 10 });
    expect(before).toMatchObject({
      records: [],
      open: [{ name: "a.example", address: "93.184.216.34", port: 443, sentBytes: 1 }],
    });
    observer.closed(CONNECTION, { kind: "closed" });
    expect(core.counts().egress).toMatchObject({ open: 0, sentBytes: 1, receivedBytes: 2 });
    await core.sessions.destroy(ALICE, session.id);
    const after = await core.networks.egress(ALICE, session.id, { after: 0, limit: 10 });
    expect(after).toMatchObject({
      cursor: 1,
      open: [],
      records: [{ sequence: 1, name: "a.example", verdict: "allowed", receivedBytes: 2 }],
    });
  });

  it("is removed with the session", async () => {
    const { core, networks } = await start();
    const { session } = await core.sessions.create(ALICE, { network: "full" });
    networks
      .of({ id: session.id, owner: "alice", network: "none" })
      .observer.closed(CONNECTION, { kind: "closed" });
    await core.sessions.destroy(ALICE, session.id);
    await networks.log.flush();
    expect((await networks.log.read(session.id, 0, 10)).records).toHaveLength(1);
    fixture.clock.pass(3_600_001);
    await core.reaper.tick();
    expect((await networks.log.read(session.id, 0, 10)).records).toEqual([]);
  });
});
