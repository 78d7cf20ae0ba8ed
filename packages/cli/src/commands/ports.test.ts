import { once } from "node:events";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestDaemon } from "../testing/test-daemon.ts";
import { parseForwarded } from "./forward.ts";

let daemon: TestDaemon;
let id: string;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  id = await daemon.open();
  await daemon.run(["exec", "--detach", id, "--", "echo-server 9000"]);
  while (!(await daemon.run(["ports", id])).stdout.includes("9000"))
    await new Promise(setImmediate);
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

describe("ports", () => {
  it("lists listening ports", async () => {
    const { stdout } = await daemon.run(["ports", id]);
    expect(stdout).toContain("9000\t127.0.0.1\t-\techo-server");
    const { stdout: json } = await daemon.run(["ports", "--json", id]);
    expect(JSON.parse(json)).toEqual([
      { port: 9000, address: "127.0.0.1", process: "echo-server" },
    ]);
  });

  it("creates a URL with the requested lifetime", async () => {
    const { stdout } = await daemon.run(["ports", id, "--preview", "9000", "--expires-in", "60"]);
    expect(new URL(stdout.trim()).hostname).toBe(`9000-${id.replace("_", "-")}.localhost`);
    const { code, stderr } = await daemon.run([
      "ports",
      id,
      "--preview",
      "9000",
      "--expires-in",
      "99999",
    ]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("preview.max_seconds")]);
    expect((await daemon.run(["ports", id, "--preview", "0"])).code).toBe(2);
  });
});

describe("forward", () => {
  it.each([
    ["5432", { port: 5432, localPort: 5432 }],
    ["5432:15432", { port: 5432, localPort: 15_432 }],
    ["5432:0", { port: 5432, localPort: 0 }],
  ])("accepts %s", (text, expected) => {
    expect(parseForwarded(text)).toEqual(expected);
  });

  it.each(["", "x", "0", "65536", "1:2:3", "1:x", "127.0.0.1:80"])("refuses %s", async (text) => {
    expect((await daemon.run(["forward", id, text])).code).toBe(2);
  });

  it("forwards several connections, with their half-closes, until it is interrupted", async () => {
    const cli = daemon.start(["forward", "--json", id, "9000:0", "9001:0"]);
    const [, ...lines] = await cli.seen(/^(.*)\n(.*)\n$/);
    const [open, shut] = lines.map(
      (line) => JSON.parse(line) as { port: number; local_host: string; local_port: number },
    );
    expect(open).toMatchObject({ port: 9000, local_host: "127.0.0.1" });
    const talk = async (text: string): Promise<string> => {
      const socket: Socket = connect({
        port: open?.local_port ?? 0,
        host: "127.0.0.1",
        allowHalfOpen: true,
      });
      socket.end(text);
      return (await buffer(socket)).toString();
    };
    const texts = ["one", "two", "x".repeat(3_000_000)];
    expect(await Promise.all(texts.map(talk))).toEqual(texts);
    const refused = connect(shut?.local_port ?? 0, "127.0.0.1");
    await once(refused, "close");
    await cli.seen(/port 9001: /, "stderr");
    // Other machines cannot connect.
    const [other] = Object.values(networkInterfaces()).flatMap((all = []) =>
      all.filter(({ internal, family }) => !internal && family === "IPv4"),
    );
    if (other !== undefined) {
      const foreign = connect(open?.local_port ?? 0, other.address);
      await expect(once(foreign, "connect")).rejects.toMatchObject({ code: "ECONNREFUSED" });
    }
    cli.signal("SIGINT");
    expect((await cli.done).code).toBe(130);
    const after = connect(open?.local_port ?? 0, "127.0.0.1");
    await expect(once(after, "connect")).rejects.toMatchObject({ code: "ECONNREFUSED" });
  });
});
