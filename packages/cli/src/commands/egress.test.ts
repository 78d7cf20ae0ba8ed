import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestDaemon } from "../testing/test-daemon.ts";

let daemon: TestDaemon;
let id: string;
beforeAll(async () => {
  daemon = await TestDaemon.start({ network: ["*.ok.example"] });
  const { stdout } = await daemon.run(["open", "--allow", "a.ok.example", "--json"]);
  ({ id } = JSON.parse(stdout) as { id: string });
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

/** Records a connection as the gateway does. */
function refuses(name: string): void {
  const connection = { target: { name, port: 443 }, via: "connect" as const };
  daemon.http.core.networks
    .of({ id, owner: "alice", network: { allow: [] } })
    .observer.closed(connection, { kind: "refused", reason: "no" });
}

describe("egress", () => {
  it("lists connections, also as JSON", async () => {
    refuses("evil.example");
    const { stdout } = await daemon.run(["egress", id]);
    expect(stdout).toMatch(/refused\tevil\.example:443\t-\t0\t0\t1\tno/);
    const { stdout: json } = await daemon.run(["egress", id, "--json"]);
    expect(JSON.parse(json)).toMatchObject([{ name: "evil.example", verdict: "refused" }]);
  });

  it("reports an unknown session", async () => {
    expect((await daemon.run(["egress", "ses_none"])).code).toBe(1);
  });
});

describe("the network of a new session", () => {
  it("consists of the hosts in --allow", async () => {
    const { stdout } = await daemon.run(["open", "--allow", "b.ok.example:443", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({ network: { allow: ["b.ok.example:443"] } });
  });

  it("is refused beyond what the administrator allows, with what to do", async () => {
    const { code, stderr } = await daemon.run(["open", "--network", "full"]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("`network.allow`")]);
    expect((await daemon.run(["open", "--network", "host"])).code).toBe(2);
    expect((await daemon.run(["open", "--network", "--allow", "a.ok.example"])).code).toBe(2);
  });
});
