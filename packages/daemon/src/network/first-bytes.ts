/** Holds back the first bytes of a program until an interceptor has decided. */
import type { Duplex } from "node:stream";
import type { EgressConnection, Inspection, Interceptor } from "./egress.ts";

const MAX_HELD_BYTES = 65_536;

export type Judged = Exclude<Inspection, { readonly kind: "more" }>;

/** Resolves with the verdict; the held bytes are put back, so the next reader gets all of them. */
export function judgeFirstBytes(
  client: Duplex,
  connection: EgressConnection,
  interceptor: Interceptor,
): Promise<Judged> {
  return new Promise((resolve, reject) => {
    let held = Buffer.alloc(0);
    const stop = (): void => {
      client.off("readable", look);
      client.off("end", look);
      client.off("close", give);
    };
    const give = (): void => {
      stop();
      reject(new Error("the program closed the connection"));
    };
    const look = (): void => {
      for (;;) {
        const chunk = client.read() as Buffer | null;
        if (chunk === null) break;
        held = Buffer.concat([held, chunk]);
      }
      const ended = client.readableEnded;
      if (held.byteLength === 0 && !ended) return;
      let verdict: Inspection;
      try {
        verdict = interceptor.inspect(connection, held, ended);
      } catch (error) {
        stop();
        reject(error instanceof Error ? error : new Error(String(error)));
        return;
      }
      if (verdict.kind === "more") {
        if (!ended && held.byteLength < MAX_HELD_BYTES) return;
        verdict = {
          kind: "refuse",
          reason: "the connection does not begin as its destination requires",
        };
      }
      stop();
      if (held.byteLength > 0 && !ended) client.unshift(held);
      resolve(verdict);
    };
    client.on("readable", look);
    client.on("end", look);
    client.once("close", give);
  });
}
