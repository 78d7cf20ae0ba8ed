/** Open requests by their key, to be cut when the key becomes invalid. */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Caller } from "../../../sessions/services/caller.ts";

const LOOK_INTERVAL_MS = 1000;

interface OpenRequest {
  readonly expiresAtMs: number | undefined;
  readonly cut: () => void;
}

export class OpenRequests {
  readonly #byKey = new Map<string, Set<OpenRequest>>();
  readonly #expiring = new Set<OpenRequest>();
  readonly #nowMs: () => number;
  #timer: NodeJS.Timeout | undefined;

  constructor(nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
  }

  /** Until the response, or the socket it became, has ended. */
  hold({ raw }: FastifyRequest, reply: FastifyReply, { keyId, expiresAtMs }: Caller): void {
    if (keyId === undefined && expiresAtMs === undefined) return;
    const open: OpenRequest = { expiresAtMs, cut: () => void raw.socket.destroy() };
    if (expiresAtMs !== undefined) this.#expiring.add(open);
    const ofKey = keyId === undefined ? undefined : this.#of(keyId);
    ofKey?.add(open);
    this.#timer ??= setInterval(() => this.#cutExpired(), LOOK_INTERVAL_MS).unref();
    const forget = (): void => {
      this.#expiring.delete(open);
      ofKey?.delete(open);
      if (keyId !== undefined && ofKey?.size === 0) this.#byKey.delete(keyId);
    };
    // A response that became a socket closes only with it.
    if (raw.headers.upgrade === undefined) reply.raw.once("close", forget);
    else raw.socket.once("close", forget);
  }

  /**
   * SECURITY: when a key becomes invalid, everything opened with it must end at once: streams,
   * terminals, connections to ports. Guarded by routes/keys.test.ts.
   */
  cut(keyId: string): void {
    for (const open of this.#byKey.get(keyId) ?? []) open.cut();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #cutExpired(): void {
    const now = this.#nowMs();
    for (const open of this.#expiring)
      if (open.expiresAtMs !== undefined && open.expiresAtMs <= now) open.cut();
  }

  #of(keyId: string): Set<OpenRequest> {
    let ofKey = this.#byKey.get(keyId);
    if (ofKey === undefined) this.#byKey.set(keyId, (ofKey = new Set()));
    return ofKey;
  }
}
