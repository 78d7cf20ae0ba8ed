/** A proxy for a Docker engine's socket on which a test can strike at a certain request. */
import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { Server, Socket } from "node:net";

/** When to strike at a request: before the engine gets it, or after the engine has done it. */
export type Moment = "before" | "after";

interface Held {
  readonly pattern: RegExp;
  readonly arrived: () => void;
  readonly released: Promise<void>;
}

interface Trap {
  readonly pattern: RegExp;
  readonly moment: Moment;
  readonly strike: () => Promise<void>;
}

export class EngineProxy implements AsyncDisposable {
  /** For DOCKER_HOST. */
  readonly host: string;
  readonly #target: string;
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  readonly #struck: string[] = [];
  readonly #requests: string[] = [];
  #trap: Trap | undefined;
  #held: Held | undefined;

  private constructor(path: string, target: string) {
    this.host = `unix://${path}`;
    this.#target = target;
    this.#server = createServer((client) => this.#serve(client));
  }

  /** @param target - The path of the engine's own socket. */
  static async start(path: string, target: string): Promise<EngineProxy> {
    const proxy = new EngineProxy(path, target);
    proxy.#server.listen(path);
    await once(proxy.#server, "listening");
    return proxy;
  }

  /** The requests that were struck at. */
  get struck(): readonly string[] {
    return this.#struck;
  }

  /** All requests so far, as `METHOD PATH`. */
  get requests(): readonly string[] {
    return this.#requests;
  }

  /** Strikes once, at the first request whose `METHOD PATH` matches; it gets no response. */
  setTrap(pattern: RegExp, moment: Moment, strike: () => Promise<void>): void {
    this.#trap = { pattern, moment, strike };
  }

  /** Holds up the first matching request, which the engine gets when it is released. */
  hold(pattern: RegExp): { readonly arrived: Promise<void>; readonly release: () => void } {
    const arrived = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    this.#held = { pattern, arrived: arrived.resolve, released: released.promise };
    return { arrived: arrived.promise, release: released.resolve };
  }

  /** Each request has a separate connection, which begins with its request line. */
  #serve(client: Socket): void {
    const engine = connect({ path: this.#target });
    const end = (): void => {
      for (const socket of [client, engine]) {
        socket.destroy();
        this.#open.delete(socket);
      }
    };
    for (const socket of [client, engine]) {
      this.#open.add(socket);
      socket.on("error", end).on("close", end);
    }
    client.once("data", (first) => {
      const line = first.toString("latin1").split(" HTTP/", 1)[0] ?? "";
      this.#requests.push(line);
      if (this.#held?.pattern.test(line) === true) {
        const { arrived, released } = this.#held;
        this.#held = undefined;
        arrived();
        void released.then(() => {
          engine.write(first);
          client.pipe(engine).pipe(client);
        });
        return;
      }
      const trap = this.#trap?.pattern.test(line) === true ? this.#trap : undefined;
      const strike = (): void => {
        this.#struck.push(line);
        void trap?.strike().finally(end);
      };
      if (trap !== undefined) this.#trap = undefined;
      if (trap?.moment === "before") return strike();
      engine.write(first);
      client.pipe(engine);
      if (trap === undefined) engine.pipe(client);
      else engine.once("data", strike);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    for (const socket of this.#open) socket.destroy();
    await once(this.#server, "close");
  }
}
