import { describe, expect, it } from "vitest";
import { EdgeInterceptor } from "./edge-interceptor.ts";
import type { EgressConnection, Inspection } from "./egress.ts";
import { realHello } from "./testing/real-hello.ts";

const TO_API: EgressConnection = {
  target: { name: "api.example.com", port: 443 },
  via: "transparent",
};

const inspect = (bytes: Uint8Array, ended = false): Inspection =>
  new EdgeInterceptor().inspect(TO_API, bytes, ended);

describe("EdgeInterceptor", () => {
  it("passes TLS that carries the name of its destination, in any case", async () => {
    expect(inspect(await realHello("api.example.com"))).toEqual({ kind: "pass" });
    expect(inspect(await realHello("API.example.COM"))).toEqual({ kind: "pass" });
  });

  it("refuses TLS that carries another name, and reports it", async () => {
    expect(inspect(await realHello("evil.example.com"))).toEqual({
      kind: "refuse",
      reason: "TLS to api.example.com must carry that name (SNI), not evil.example.com",
    });
  });

  it("refuses TLS that carries no name, or a hello that cannot be parsed", async () => {
    expect(inspect(await realHello())).toMatchObject({ kind: "refuse" });
    expect(inspect(Buffer.from([22, 3, 1, 0, 0]))).toMatchObject({ kind: "refuse" });
  });

  it("waits for the rest of a hello, and refuses one that ends too early", async () => {
    const half = (await realHello("evil.example.com")).subarray(0, 40);
    expect(inspect(half)).toEqual({ kind: "more" });
    expect(inspect(half, true)).toMatchObject({ kind: "refuse" });
  });

  it("passes other protocols and programs that send nothing", () => {
    expect(inspect(Buffer.from("GET / HTTP/1.1\r\n"))).toEqual({ kind: "pass" });
    expect(inspect(Buffer.alloc(0), true)).toEqual({ kind: "pass" });
  });

  it("does not inspect connections to addresses", () => {
    const interceptor = new EdgeInterceptor();
    expect(interceptor.wants(TO_API)).toBe(true);
    expect(interceptor.wants({ target: { address: "10.0.0.1", port: 443 }, via: "connect" })).toBe(
      false,
    );
  });

  it("hands over connections to hosts that get secrets, once their name is verified", async () => {
    const interceptor = new EdgeInterceptor({
      handles: (host) => host === "api.example.com",
      serve: () => Promise.resolve(),
    });
    const judged = interceptor.inspect(TO_API, await realHello("api.example.com"), false);
    expect(judged.kind).toBe("terminate");
    const other = interceptor.inspect(TO_API, await realHello("other.example.com"), false);
    expect(other.kind).toBe("refuse");
    const may = (target: EgressConnection["target"]): boolean =>
      interceptor.mayTerminate({ target, via: "connect" });
    expect(may({ name: "API.example.com", port: 443 })).toBe(true);
    expect(may({ name: "other.example.com", port: 443 })).toBe(false);
    expect(may({ address: "192.0.2.1", port: 443 })).toBe(false);
  });
});
