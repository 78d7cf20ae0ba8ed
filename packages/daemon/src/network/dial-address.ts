/** Connects to exactly one address. */
import { connect, isIP } from "node:net";
import type { Socket } from "node:net";
import type { SharedReads } from "./shared-reads.ts";

const CONNECT_TIMEOUT_MS = 10_000;

/**
 * SECURITY: accepts an address that was checked, never a name: the result of a second resolution
 * would not be checked (DNS rebinding). Guarded by "resolves a name once" in session-gateway.test.ts.
 */
export function dialAddress(
  address: string,
  port: number,
  signal: AbortSignal,
  reads?: SharedReads,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    if (isIP(address) === 0) throw new Error(`${address} is not an address`);
    const socket = connect({
      host: address,
      port,
      allowHalfOpen: true,
      noDelay: true,
      ...(reads !== undefined && { onread: reads.options }),
    });
    const giveUp = (error: Error): void => {
      socket.destroy(error);
    };
    const timer = setTimeout(
      () => giveUp(Object.assign(new Error("connect timed out"), { code: "ETIMEDOUT" })),
      CONNECT_TIMEOUT_MS,
    );
    const onAbort = (): void => giveUp(new Error("the program closed the connection"));
    signal.addEventListener("abort", onAbort, { once: true });
    const settle = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      socket.off("error", fail);
    };
    const fail = (error: Error): void => {
      settle();
      reject(error);
    };
    socket.once("error", fail);
    socket.once("connect", () => {
      settle();
      resolve(socket);
    });
    if (signal.aborted) onAbort();
  });
}
