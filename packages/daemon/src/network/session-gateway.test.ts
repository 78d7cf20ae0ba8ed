/** The gateway between a program, played by a plain stream, and real servers on loopback. */
import { createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import type { SandboxRefusalCode } from "@sandkasten/protocol";
import { afterEach, describe, expect, it } from "vitest";
import type { SandboxConnection, SandboxDestination } from "../ports/channel.ts";
import type { EgressConnection, EgressEnd, Inspection, SessionEgress } from "./egress.ts";
import { SessionGateway } from "./session-gateway.ts";

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await new Promise((done) => server.close(done));
});

async function serve(onSocket: (socket: Socket) => void): Promise<number> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => undefined);
    onSocket(socket);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

/** What a program receives on its connection. */
class Program extends Duplex implements SandboxConnection {
  readonly failure = Promise.withResolvers<{ code: SandboxRefusalCode; message: string }>();
  readonly accepted = Promise.withResolvers<void>();
  /** The program's own end. */
  readonly inside: Duplex;
  #wake: (() => void) | undefined;

  constructor() {
    super();
    this.inside = new Duplex({
      read: () => this.#wake?.(),
      write: (chunk: Buffer, _, done) => {
        this.push(chunk);
        done();
      },
      final: (done) => {
        this.push(null);
        done();
      },
    });
    this.on("error", () => undefined);
    this.inside.on("error", () => undefined);
  }

  accept(): void {
    this.accepted.resolve();
  }

  fail(code: SandboxRefusalCode, message: string): void {
    this.failure.resolve({ code, message });
    this.destroy();
    this.inside.destroy(new Error(message));
  }

  override _read(): void {}

  override _write(chunk: Buffer, _: string, done: () => void): void {
    if (this.inside.push(chunk)) done();
    else this.#wake = done;
  }

  override _final(done: () => void): void {
    this.inside.push(null);
    done();
  }
}

interface Setup {
  readonly gateway: SessionGateway;
  readonly resolved: string[];
  readonly refusedNames: string[];
  readonly ends: [EgressConnection, EgressEnd][];
  readonly moved: { sent: number; received: number };
  readonly connect: (destination: Partial<SandboxDestination> & { port: number }) => Program;
}

/** A session that can reach `a.test` and 127.0.0.1, to which `a.test` resolves. */
function setup(
  options: {
    readonly addresses?: () => readonly string[];
    readonly allowsAddress?: (address: string) => boolean;
  } & Partial<Pick<SessionEgress, "limiter" | "interceptor">> = {},
): Setup & { allowed: boolean } {
  const resolved: string[] = [];
  const refusedNames: string[] = [];
  const ends: Setup["ends"] = [];
  const moved = { sent: 0, received: 0 };
  const state = { allowed: true };
  const { addresses = () => ["127.0.0.1"], allowsAddress = (a) => a === "127.0.0.1" } = options;
  const gateway = new SessionGateway(
    {
      policy: () => ({
        portsOf: (name) => (name === "a.test" ? [{ first: 80, last: 81 }] : []),
        decide: ({ name, address }) =>
          state.allowed &&
          (name === undefined || name === "a.test") &&
          (address === undefined || allowsAddress(address))
            ? { allowed: true }
            : { allowed: false, message: `${name ?? ""} ${address ?? ""} is not allowed` },
      }),
      observer: {
        opened: () => undefined,
        moved: (_, sent, received) => {
          moved.sent += sent;
          moved.received += received;
        },
        closed: (connection, end) => ends.push([connection, end]),
        nameRefused: (name) => refusedNames.push(name),
      },
      limiter: options.limiter ?? {
        admit: () => ({ release: () => undefined }),
        take: () => undefined,
      },
      ...(options.interceptor !== undefined && { interceptor: options.interceptor }),
    },
    {
      resolveName: async (name) => {
        resolved.push(name);
        return addresses();
      },
    },
  );
  return Object.assign(state, {
    gateway,
    resolved,
    refusedNames,
    ends,
    moved,
    connect: (destination: Partial<SandboxDestination> & { port: number }) => {
      const program = new Program();
      gateway.connect({ host: "a.test", via: "transparent", ...destination }, program);
      return program;
    },
  });
}

describe("names", () => {
  it("return the ports of the policy, without a query to a name server", () => {
    const { gateway, resolved, refusedNames } = setup();
    expect(gateway.resolve("A.Test.")).toEqual([80, 81]);
    expect(gateway.resolve("aGVsbG8.evil.test")).toBeUndefined();
    expect(gateway.resolve("0x7f.1")).toBeUndefined();
    expect(refusedNames).toEqual(["aGVsbG8.evil.test", "0x7f.1"]);
    expect(resolved).toEqual([]);
  });
});

describe("a connection", () => {
  it("transfers bytes both ways, half-closes, and is recorded with its size", async () => {
    const port = await serve((socket) => {
      void text(socket).then((said) => socket.end(`heard ${said}`));
    });
    const { connect, ends, moved } = setup();
    const program = connect({ port });
    await program.accepted.promise;
    program.inside.end("hello");
    expect(await text(program.inside)).toBe("heard hello");
    await expect
      .poll(() => ends)
      .toEqual([
        [
          { target: { name: "a.test", port }, via: "transparent", address: "127.0.0.1" },
          { kind: "closed" },
        ],
      ]);
    expect(moved).toEqual({ sent: 5, received: 11 });
  });

  it("that the policy refuses does not resolve a name", async () => {
    const { connect, resolved, ends } = setup();
    const failure = await connect({ host: "b.test", port: 443 }).failure.promise;
    expect(failure.code).toBe("denied");
    expect(resolved).toEqual([]);
    expect(ends).toMatchObject([[{ target: { name: "b.test" } }, { kind: "refused" }]]);
  });

  it.each(["2130706433", "0177.0.0.1", "0x7f.0.0.1", "127.1", "1"])(
    "to %s, an address in disguise, is refused without a query",
    async (host) => {
      const { connect, resolved } = setup({ allowsAddress: () => true });
      expect((await connect({ host, port: 80 }).failure.promise).code).toBe("denied");
      expect(resolved).toEqual([]);
    },
  );

  it("to a name that resolves to a forbidden address is refused", async () => {
    const { connect } = setup({ addresses: () => ["169.254.169.254", "::ffff:127.0.0.1"] });
    const { code, message } = await connect({ port: 80 }).failure.promise;
    expect(code).toBe("denied");
    expect(message).toContain("169.254.169.254");
  });

  it("resolves a name once and connects to the checked address, even if the name changes", async () => {
    const port = await serve((socket) => socket.end("right"));
    const answers = [["127.0.0.1"], ["10.0.0.1"]];
    const { connect, resolved } = setup({ addresses: () => answers.shift() ?? [] });
    const program = connect({ port });
    program.inside.end();
    expect(await text(program.inside)).toBe("right");
    expect(resolved).toEqual(["a.test"]);
    expect((await connect({ port }).failure.promise).code).toBe("denied");
  });

  it("tries the next address if one does not respond", async () => {
    const port = await serve((socket) => socket.end("second"));
    const { connect, ends } = setup({
      addresses: () => ["127.0.0.2", "127.0.0.1"],
      allowsAddress: () => true,
    });
    const program = connect({ port });
    program.inside.end();
    expect(await text(program.inside)).toBe("second");
    await expect.poll(() => ends[0]?.[0].address).toBe("127.0.0.1");
  });

  it("to a closed port reports this", async () => {
    const port = await serve(() => undefined);
    await new Promise((done) => servers.pop()?.close(done));
    expect((await setup().connect({ port }).failure.promise).code).toBe("refused");
  });

  it("to a name without an address reports this", async () => {
    const { connect } = setup({ addresses: () => [] });
    expect((await connect({ port: 80 }).failure.promise).code).toBe("unresolved");
  });

  it("that the server resets is reset for the program", async () => {
    const port = await serve((socket) => {
      socket.once("data", () => socket.resetAndDestroy());
    });
    const { connect, ends } = setup();
    const program = connect({ port });
    program.inside.write("x");
    expect((await program.failure.promise).code).toBe("reset");
    await expect.poll(() => ends).toMatchObject([[{}, { kind: "failed" }]]);
  });

  it("that the program resets is reset for the server", async () => {
    const broken = Promise.withResolvers<Error>();
    const port = await serve((socket) => {
      socket.once("error", broken.resolve);
      socket.resume();
    });
    const program = setup().connect({ port });
    await program.accepted.promise;
    program.destroy(new Error("gone"));
    expect(await broken.promise).toMatchObject({ code: "ECONNRESET" });
  });

  it("slows down a server if the program does not keep up", async () => {
    let written = 0;
    const port = await serve((socket) => {
      const push = (): void => {
        while (!socket.destroyed && written < 64 << 20) {
          written += 65_536;
          if (!socket.write(Buffer.alloc(65_536))) break;
        }
      };
      socket.on("drain", push);
      push();
    });
    const { connect, moved } = setup();
    const program = connect({ port });
    await program.accepted.promise;
    // At most what buffers and the kernel hold.
    await expect.poll(() => moved.received).toBeGreaterThan(0);
    let before;
    do {
      before = written;
      await new Promise((resolve) => setTimeout(resolve, 100));
    } while (written !== before);
    expect(written).toBeLessThan(32 << 20);
    program.destroy();
  });

  it("is closed when the policy no longer allows it, and others are not", async () => {
    const port = await serve((socket) => socket.resume());
    const state = setup();
    const program = state.connect({ port });
    await program.accepted.promise;
    state.gateway.recheck();
    expect(program.destroyed).toBe(false);
    state.allowed = false;
    state.gateway.recheck();
    expect((await program.failure.promise).code).toBe("denied");
    await expect.poll(() => state.ends).toMatchObject([[{}, { kind: "refused" }]]);
  });
});

describe("limits", () => {
  it("refuse a connection, and release each place once", async () => {
    let open = 0;
    const port = await serve((socket) => socket.end());
    const { connect } = setup({
      limiter: {
        admit: () =>
          open > 0 ? { reason: "one is enough" } : (open++, { release: () => void open-- }),
        take: () => undefined,
      },
    });
    const first = connect({ port });
    expect(await connect({ port }).failure.promise).toEqual({
      code: "too_many",
      message: "one is enough",
    });
    first.inside.end();
    await text(first.inside);
    await expect.poll(() => open).toBe(0);
    expect((await connect({ host: "b.test", port }).failure.promise).code).toBe("denied");
    expect(open).toBe(0);
  });

  it("delay bytes, lose none, and close connections that exceed the total", async () => {
    const port = await serve((socket) => void socket.pipe(socket));
    let taken = 0;
    const { connect } = setup({
      limiter: {
        admit: () => ({ release: () => undefined }),
        take: (_, bytes) => {
          taken += bytes;
          return taken > 30
            ? Promise.reject(new Error("that was enough"))
            : new Promise((resolve) => setTimeout(resolve, 5));
        },
      },
    });
    const program = connect({ port });
    program.inside.end("0123456789");
    expect(await text(program.inside)).toBe("0123456789");
    const over = connect({ port });
    over.inside.write("0123456789-");
    expect((await over.failure.promise).message).toBe("that was enough");
  });
});

describe("a destination", () => {
  it("that is forbidden during the connection attempt is not reached", async () => {
    const heard: string[] = [];
    const port = await serve((socket) => {
      socket.on("data", (chunk) => heard.push(String(chunk)));
    });
    let asked = 0;
    // Allowed when it was resolved, but no longer when the connection is established.
    const { connect, ends } = setup({ allowsAddress: () => ++asked === 1 });
    const program = connect({ port });
    program.inside.write("too late");
    expect((await program.failure.promise).code).toBe("denied");
    expect(ends).toMatchObject([[{ address: "127.0.0.1" }, { kind: "refused" }]]);
    expect(asked).toBe(2);
    expect(heard).toEqual([]);
  });
});

describe("an interceptor", () => {
  const inspecting = (
    inspect: (first: string, ended: boolean) => Inspection,
    mayTerminate = false,
  ): Setup =>
    setup({
      interceptor: {
        wants: () => true,
        mayTerminate: () => mayTerminate,
        inspect: (_, first, ended) => inspect(Buffer.from(first).toString(), ended),
      },
    });

  it.each([
    ["passes", false],
    ["passes, though it might have been terminated", true],
  ])(
    "sees what the program says first, and the server gets all of it once it %s",
    async (_, mayTerminate) => {
      const port = await serve((socket) => {
        void text(socket).then((said) => socket.end(said));
      });
      const seen: string[] = [];
      const { connect } = inspecting((first) => {
        seen.push(first);
        return first.length < 4 ? { kind: "more" } : { kind: "pass" };
      }, mayTerminate);
      const program = connect({ port });
      program.inside.write("ab");
      await expect.poll(() => seen).toEqual(["ab"]);
      program.inside.end("cdef");
      expect(await text(program.inside)).toBe("abcdef");
      expect(seen).toEqual(["ab", "abcdef"]);
    },
  );

  it.each([false, true])("does not block a server that speaks first", async (mayTerminate) => {
    const port = await serve((socket) => {
      socket.write("220 ready\n");
      socket.once("data", () => socket.end("bye"));
    });
    const { connect } = inspecting(() => ({ kind: "pass" }), mayTerminate);
    const program = connect({ port });
    const greeting = await new Promise((resolve) => program.inside.once("data", resolve));
    expect(String(greeting)).toBe("220 ready\n");
    program.inside.end("quit");
    expect(await text(program.inside)).toBe("bye");
  });

  it.each([false, true])(
    "informs the server when a program ends without sending",
    async (mayTerminate) => {
      const heard = Promise.withResolvers<string>();
      const port = await serve((socket) => {
        void text(socket).then((said) => {
          heard.resolve(said);
          socket.end();
        });
      });
      const { connect, ends } = inspecting(
        (_, ended) => ({ kind: ended ? "pass" : "more" }),
        mayTerminate,
      );
      connect({ port }).inside.end();
      expect(await heard.promise).toBe("");
      await expect.poll(() => ends).toMatchObject([[{}, { kind: "closed" }]]);
    },
  );

  it("refuses a connection before the server receives a byte", async () => {
    const heard: string[] = [];
    const port = await serve((socket) => {
      socket.on("data", (chunk) => heard.push(String(chunk)));
    });
    const { connect, ends } = inspecting(() => ({ kind: "refuse", reason: "the wrong name" }));
    const program = connect({ port });
    program.inside.write("secret");
    expect(await program.failure.promise).toEqual({ code: "denied", message: "the wrong name" });
    await expect
      .poll(() => ends)
      .toMatchObject([[{}, { kind: "refused", reason: "the wrong name" }]]);
    expect(heard).toEqual([]);
  });

  it("that never decides refuses", async () => {
    const port = await serve(() => undefined);
    const { connect } = inspecting(() => ({ kind: "more" }));
    const ended = connect({ port });
    ended.inside.end("short");
    expect((await ended.failure.promise).code).toBe("denied");
    const long = connect({ port });
    long.inside.write(Buffer.alloc(70_000));
    expect((await long.failure.promise).code).toBe("denied");
  });

  it("that sends after it said that it would not gets the connection closed", async () => {
    const port = await serve((socket) => void socket.resume());
    const { connect, ends } = inspecting(() => ({
      kind: "terminate",
      serve: () => Promise.resolve(),
    }));
    const program = connect({ port });
    program.inside.write("hello");
    expect((await program.failure.promise).code).toBe("denied");
    await expect.poll(() => ends).toMatchObject([[{}, { kind: "refused" }]]);
  });

  it("can talk to the program itself", async () => {
    const port = await serve((socket) => {
      void text(socket).then((said) => socket.end(said.toUpperCase()));
    });
    const { connect, moved } = inspecting(
      () => ({
        kind: "terminate",
        serve: async (client, dial) => {
          const said = await text(client);
          const server = await dial();
          server.end(`${said} and more`);
          client.end(await text(server));
        },
      }),
      true,
    );
    const program = connect({ port });
    program.inside.end("hello");
    expect(await text(program.inside)).toBe("HELLO AND MORE");
    await expect.poll(() => moved).toEqual({ sent: 14, received: 14 });
  });
});
