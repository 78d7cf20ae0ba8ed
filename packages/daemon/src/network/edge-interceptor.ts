/** Inspects the beginning of connections to names: TLS must carry the name, and can get a secret. */
import type { Duplex } from "node:stream";
import { readFirstWords } from "./client-hello.ts";
import type { EgressConnection, Inspection, Interceptor } from "./egress.ts";
import { normalizeHostName } from "./host-names.ts";

/** Talks to the program in place of a host with secrets. */
export interface Terminator {
  /** Whether requests to this host get a secret. */
  handles(host: string): boolean;
  serve(host: string, client: Duplex, connect: () => Promise<Duplex>): Promise<void>;
}

/**
 * SECURITY: a server with many names must not be reached under an allowed name and then
 * asked for another. Guarded by edge-interceptor.test.ts.
 */
export class EdgeInterceptor implements Interceptor {
  readonly #terminator: Terminator | undefined;

  constructor(terminator?: Terminator) {
    this.#terminator = terminator;
  }

  /** A literal address has no name to carry. */
  wants({ target }: EgressConnection): boolean {
    return "name" in target;
  }

  mayTerminate({ target }: EgressConnection): boolean {
    const name = "name" in target ? normalizeHostName(target.name) : undefined;
    return name !== undefined && this.#terminator?.handles(name) === true;
  }

  inspect({ target }: EgressConnection, first: Uint8Array, ended: boolean): Inspection {
    const words = readFirstWords(first);
    const name = "name" in target ? normalizeHostName(target.name) : undefined;
    switch (words.kind) {
      case "other":
        return { kind: "pass" };
      case "more":
        if (!ended) return { kind: "more" };
        return first.length === 0
          ? { kind: "pass" }
          : { kind: "refuse", reason: "the TLS ClientHello is incomplete" };
      case "malformed":
        return { kind: "refuse", reason: `the TLS ClientHello is malformed: ${words.reason}` };
      case "hello": {
        if (words.sni === undefined)
          return {
            kind: "refuse",
            reason: `TLS to ${name ?? "a name"} must carry that name (SNI), and this client sends none`,
          };
        if (name === undefined || normalizeHostName(words.sni) !== name)
          return {
            kind: "refuse",
            reason: `TLS to ${name ?? "a name"} must carry that name (SNI), not ${words.sni.slice(0, 255)}`,
          };
        const terminator = this.#terminator;
        if (terminator?.handles(name) !== true) return { kind: "pass" };
        return {
          kind: "terminate",
          serve: (client, connect) => terminator.serve(name, client, connect),
        };
      }
    }
  }
}
