/**
 * Uses the built package as a stranger would, in whatever runtime runs it, against a server whose
 * answers build.test.ts scripts, and prints what it saw.
 */
import { SandboxClient, SandboxError } from "@sandkasten/sdk";

const client = new SandboxClient({
  baseUrl: process.argv.at(-1)!,
  apiKey: "sk_test",
  retryDelayMs: 1,
});
const seen: Record<string, unknown> = {};
{
  await using session = await client.createSession({ image: "host" });
  const stream = session.stream("x");
  seen["output"] = (await Array.fromAsync(stream)).map(({ text }) => text);
  seen["exitCode"] = (await stream.result).exitCode;
  const written = await session.write("a", new Blob(["streamed"]).stream());
  seen["sizeBytes"] = written.sizeBytes;
  const error = await session.read("b").catch((reason: unknown) => reason);
  seen["error"] = error instanceof SandboxError ? error.code : String(error);
  const pty = await session.pty();
  pty.write("typed");
  const decoder = new TextDecoder();
  seen["printed"] = (await Array.fromAsync(pty)).map((bytes) => decoder.decode(bytes)).join("");
}
// oxlint-disable-next-line no-console
console.log(JSON.stringify(seen));
