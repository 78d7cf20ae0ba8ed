/**
 * Uses the built package as an outside user would, in any runtime, against a server scripted by
 * build.test.ts, and prints the results.
 */
import { SandboxClient, SandboxError } from "@sandkasten/sdk";

async function main(): Promise<void> {
  // Node 20 has no built-in WebSocket.
  const ws = typeof WebSocket === "undefined" ? await import(process.env["WS_MODULE"]!) : undefined;
  const client = new SandboxClient({
    baseUrl: process.argv.at(-1)!,
    apiKey: "sk_test",
    retryDelayMs: 1,
    webSocket: ws?.default,
  });
  const seen: Record<string, unknown> = {};
  {
    await using session = await client.createSession({ image: "host" });
    const stream = session.stream("x");
    seen["output"] = await all(stream, ({ text }) => text);
    seen["exitCode"] = (await stream.result).exitCode;
    const written = await session.write("a", new Blob(["streamed"]).stream());
    seen["sizeBytes"] = written.sizeBytes;
    const error = await session.read("b").catch((reason: unknown) => reason);
    seen["error"] = error instanceof SandboxError ? error.code : String(error);
    const pty = await session.pty();
    pty.write("typed");
    const decoder = new TextDecoder();
    seen["printed"] = (await all(pty, (bytes) => decoder.decode(bytes))).join("");
  }
  // oxlint-disable-next-line no-console
  console.log(JSON.stringify(seen));
}

/** `Array.fromAsync`, which Node 20 does not have. */
async function all<From, To>(source: AsyncIterable<From>, map: (item: From) => To): Promise<To[]> {
  const items: To[] = [];
  for await (const item of source) items.push(map(item));
  return items;
}

void main();
