/**
 * Uses the built package in a web page, served by browser-site.ts, against a real daemon, and
 * reports the results.
 */
import { SandboxClient, SandboxError } from "@sandkasten/sdk";

const settings = new URL(import.meta.url).searchParams;
const client = new SandboxClient({
  baseUrl: settings.get("daemon")!,
  apiKey: settings.get("key")!,
  maxRetries: 0,
});

async function look(): Promise<object> {
  await using session = await client.createSession();
  const seen: Record<string, unknown> = { userAgent: navigator.userAgent };
  seen["health"] = await client.health();

  const output: string[] = [];
  const stream = session.stream("echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2");
  for await (const { stream: name, text } of stream) {
    output.push(`${name} ${text}`);
    if (output.length === 1) await session.write("go", "");
  }
  seen["output"] = output;
  seen["exitCode"] = (await stream.result).exitCode;

  const bytes = new Uint8Array(300_000).map((_, index) => index % 251);
  const written = await session.write("a b&ü.bin", new Blob([bytes]).stream());
  const read = await session.read("a b&ü.bin");
  seen["written"] = written;
  seen["read"] = read.length;
  seen["differing"] = bytes.filter((byte, index) => byte !== read[index]).length;

  using pty = await session.pty({ rows: 24, cols: 80 });
  pty.resize({ rows: 40, cols: 132 });
  pty.write("stty size; exit 5\r");
  const decoder = new TextDecoder();
  seen["screen"] = "";
  for await (const printed of pty) seen["screen"] += decoder.decode(printed, { stream: true });
  seen["ptyExitCode"] = (await pty.exited).exitCode;

  seen["missing"] = await session.read("nowhere").catch(described);
  seen["late"] = await session.exec("echo part; sleep 1000", { timeoutMs: 200 }).catch(described);
  return seen;
}

function described(error: unknown): unknown {
  if (!(error instanceof SandboxError)) return String(error);
  const { code, status, requestId, result } = error;
  return { code, status, hasRequestId: requestId !== undefined, output: result?.output };
}

const report = await look().catch((error: unknown) => ({ failure: described(error) }));
await fetch("/report", { method: "POST", body: JSON.stringify(report) });
