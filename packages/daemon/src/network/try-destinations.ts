/**
 * Tries from inside a sandbox what its rules allow and forbid. Nothing leaves the machine: an
 * allowed name is resolved but not connected to, and forbidden destinations are unreachable.
 */
import type { IsolationFact } from "../ports/backend.ts";
import type { Channel } from "../ports/channel.ts";
import { addressInAnswer, nameQuestion } from "./name-question.ts";
import type { NetworkPolicy } from "./policy.ts";

const NAME_SERVER_PORT = 53;
const PROXY_PORT = 3128;
const TIMEOUT_MS = 5_000;
/** The expected answers are short; longer ones are truncated. */
const MAX_ANSWER_BYTES = 4_096;

/** Names that do not exist, and addresses that a sandbox must not reach. */
const FORBIDDEN = [
  { name: "forbidden.invalid", port: 443 },
  { address: "169.254.169.254", port: 80 },
  { address: "127.0.0.1", port: 8080 },
] as const;

/** Only forbidden destinations decide: an allowed name that is not found is a fault, but not a hole. */
export async function tryDestinations(
  channel: Pick<Channel, "dial">,
  policy: NetworkPolicy,
): Promise<IsolationFact> {
  const found: string[] = [];
  const allowed = allowedName(policy);
  if (allowed !== undefined)
    found.push(`${allowed} ${await lookUp(channel, allowed)}, and was not connected to`);
  let isHeld = true;
  for (const destination of FORBIDDEN) {
    if (policy.decide(destination).allowed) continue;
    const host = "name" in destination ? destination.name : destination.address;
    const answer = await askProxy(channel, `${host}:${String(destination.port)}`);
    isHeld &&= answer.startsWith(REFUSED);
    found.push(`${host}:${String(destination.port)} ${answer}`);
    if (!("name" in destination)) continue;
    const name = await lookUp(channel, host);
    isHeld &&= !name.startsWith(RESOLVED);
    found.push(`${host} ${name}`);
  }
  return { name: "network_rules", enforced: isHeld, measured: found.join("; ") };
}

/** A name that the rules and all ceilings allow, if one can be derived from them. */
function allowedName(policy: NetworkPolicy): string | undefined {
  return policy.rules
    .flatMap(({ target }) => {
      if (target.kind === "name") return [target.name];
      if (target.kind === "subdomains") return [`sandkasten.${target.name}`];
      return target.kind === "public" ? ["example.com"] : [];
    })
    .find((name) => policy.portsOf(name).length > 0);
}

const RESOLVED = "resolves inside";

async function lookUp(channel: Pick<Channel, "dial">, name: string): Promise<string> {
  const question = nameQuestion(name);
  const answer = await ask(channel, NAME_SERVER_PORT, question, (bytes) =>
    addressInAnswer(bytes, question),
  );
  if (answer === undefined) return "cannot be asked for: there is no name server inside";
  return answer === "none" ? "does not exist inside" : `${RESOLVED} to ${answer}`;
}

const REFUSED = "was refused by the proxy";

async function askProxy(channel: Pick<Channel, "dial">, target: string): Promise<string> {
  const request = Buffer.from(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
  const status = await ask(
    channel,
    PROXY_PORT,
    request,
    (bytes) => /^HTTP\/1\.1 (\d{3}) /.exec(bytes.toString("latin1"))?.[1],
  );
  if (status === undefined) return "got no answer from the proxy";
  return status.startsWith("2") ? "was opened by the proxy" : `${REFUSED} (${status})`;
}

/** Undefined if there is no answer, or not a valid one. */
async function ask(
  channel: Pick<Channel, "dial">,
  port: number,
  question: Buffer,
  understand: (answer: Buffer) => string | undefined,
): Promise<string | undefined> {
  let understood: string | undefined;
  try {
    const { readable, writable } = await channel.dial(port, AbortSignal.timeout(TIMEOUT_MS));
    const writer = writable.getWriter();
    // The answer shows whether it was accepted.
    writer.write(question).catch(() => undefined);
    let answer = Buffer.alloc(0);
    for await (const chunk of readable) {
      answer = Buffer.concat([answer, chunk]);
      understood = understand(answer);
      if (understood !== undefined || answer.byteLength > MAX_ANSWER_BYTES) break;
    }
    writer.abort().catch(() => undefined);
  } catch {
    // Nothing listens, or the connection broke; the answer so far still counts.
  }
  return understood;
}
