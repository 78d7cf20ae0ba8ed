import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { SessionView } from "./services/session-service.ts";
import { ALICE, BOB, CoreFixture } from "./testing/core-fixture.ts";

const VALUE = "Bearer v3ry-s3cr3t-value";
const NETWORK = { allow: ["api.bob.example"] };

let fixture: CoreFixture;

afterEach(async () => {
  await fixture[Symbol.asyncDispose]();
});

function certificate({ network, owner }: SessionView): string {
  return typeof network === "object" && network.secrets !== undefined
    ? fixture.networks.certificateOf(network.secrets, owner)
    : "none";
}

async function everythingOnDisk(directory: string): Promise<string> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const contents = files.map(({ parentPath, name }) => readFile(join(parentPath, name), "latin1"));
  return (await Promise.all(contents)).join("\n");
}

describe("a secret of a session", () => {
  it("is not on the daemon's disk, in its log or in its responses, in any usual encoding", async () => {
    fixture = await CoreFixture.start({ network: ["*.bob.example"] });
    const { core } = fixture;
    const secrets = [
      { host: "api.bob.example", header: "Authorization", value: VALUE },
      { host: "api.bob.example", header: "X-Key", name: "alices" },
    ];
    const created = await core.sessions.create(ALICE, {
      network: NETWORK,
      secrets,
      idempotencyKey: "once",
    });
    const again = await core.sessions.create(ALICE, {
      network: NETWORK,
      secrets,
      idempotencyKey: "once",
    });
    expect([again.created, again.session.id]).toEqual([false, created.session.id]);
    const found = [
      JSON.stringify(created),
      JSON.stringify(await core.sessions.list(ALICE, {})),
      JSON.stringify(fixture.log.lines),
      await everythingOnDisk(fixture.directory),
      (await fixture.run(created.session.id, "env")).output,
    ].join("\n");
    expect(found).toContain("api.bob.example");
    for (const text of [VALUE, "v3ry-s3cr3t-value", "al1c3s"])
      for (const encoding of ["latin1", "base64", "base64url", "hex"] as const)
        expect(found.includes(Buffer.from(text).toString(encoding))).toBe(false);
  });

  it("survives a restart of the daemon, with the authority of its sandbox", async () => {
    fixture = await CoreFixture.start({ network: ["*.bob.example"] });
    const secrets = [{ host: "api.bob.example", header: "Authorization", value: VALUE }];
    const { session } = await fixture.core.sessions.create(ALICE, { network: NETWORK, secrets });
    const before = certificate(session);
    expect(before).toContain("BEGIN CERTIFICATE");
    await fixture.restart();
    const found = await fixture.core.sessions.get(ALICE, session.id);
    expect(certificate(found)).toBe(before);
    // A change of the network does not affect the secrets.
    const changed = await fixture.core.networks.change(ALICE, session.id, { allow: [] });
    expect(certificate(changed)).toBe(before);
  });

  it("requires a network that the gateway enforces, and a host that this network allows", async () => {
    fixture = await CoreFixture.start({ network: ["*.bob.example"] });
    const secrets = [{ host: "api.bob.example", header: "Authorization", value: VALUE }];
    for (const network of [undefined, "none", { allow: ["other.bob.example"] }] as const)
      await expect(
        fixture.core.sessions.create(ALICE, { secrets, ...(network && { network }) }),
      ).rejects.toMatchObject({ code: "INVALID_REQUEST" });
  });

  it("can be the administrator's only for keys that are allowed to use it", async () => {
    fixture = await CoreFixture.start({ network: ["*.bob.example"] });
    const secrets = [{ host: "api.bob.example", header: "X-Key", name: "alices" }];
    await expect(
      fixture.core.sessions.create(BOB, { network: NETWORK, secrets }),
    ).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
    const { session } = await fixture.core.sessions.create(ALICE, { network: NETWORK, secrets });
    expect(session.network).toMatchObject({
      secrets: { headers: [{ host: "api.bob.example", header: "x-key", name: "alices" }] },
    });
  });

  it("has an authority that the sandbox's programs trust from the first command on", async () => {
    fixture = await CoreFixture.start({ network: ["*.bob.example"] });
    const secrets = [{ host: "api.bob.example", header: "Authorization", value: VALUE }];
    const { session } = await fixture.core.sessions.create(ALICE, { network: NETWORK, secrets });
    using visit = await fixture.core.sessions.enter(ALICE, session.id);
    const { body } = await visit.channel.readFile("/home/sandbox/.sandkasten/ca-certificates.pem");
    const bundle = await new Response(body).text();
    expect(bundle.endsWith(certificate(session))).toBe(true);
    expect(bundle.match(/BEGIN CERTIFICATE/g)?.length).toBeGreaterThan(20);
  });
});
