/** A sandbox can lie about its network, so these tests play sandboxes with all kinds of answers. */
import type { PortConnection } from "../ports/channel.ts";
import { expect, test } from "vitest";
import { nameQuestion } from "./name-question.ts";
import { resolveRules } from "./plan-network.ts";
import { NetworkPolicy } from "./policy.ts";
import { tryDestinations } from "./try-destinations.ts";

type Answer = Buffer | string | undefined;

function policy(...rules: readonly string[]): NetworkPolicy {
  return new NetworkPolicy(resolveRules(rules, new Map()), []);
}

/** A sandbox whose proxy and name server answer with these bytes; undefined: nothing listens. */
function sandbox(answers: {
  readonly proxy: (request: string) => Answer;
  readonly names: (question: Buffer) => Answer;
}): { readonly dial: (port: number) => Promise<PortConnection> } {
  return {
    dial: async (port) => {
      const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>({
        transform: (chunk, controller) => {
          const said = Buffer.from(chunk);
          const answer = port === 53 ? answers.names(said) : answers.proxy(said.toString());
          for (const byte of Buffer.from(answer ?? "")) controller.enqueue(Uint8Array.of(byte));
          controller.terminate();
        },
      });
      if ((port === 53 ? answers.names(nameQuestion("x")) : "") === undefined)
        throw new Error("nobody listens");
      return { readable, writable };
    },
  };
}

const NAMES = ["a.test"];
function answerOf(question: Buffer, known: readonly string[] = NAMES): Buffer {
  const answer = Buffer.from(question);
  const isKnown = known.some((name) => question.includes(nameQuestion(name).subarray(14, -4)));
  answer.writeUInt16BE(isKnown ? 0x8180 : 0x8183, 4);
  answer.writeUInt16BE(isKnown ? 1 : 0, 8);
  const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 5]);
  const whole = isKnown ? Buffer.concat([answer, record]) : answer;
  whole.writeUInt16BE(whole.byteLength - 2, 0);
  return whole;
}

const REFUSES = (): Answer => "HTTP/1.1 403 Forbidden\r\n\r\n";
const TELLS = (question: Buffer): Answer => answerOf(question);

test("rules are enforced if forbidden destinations are refused, and the report names them", async () => {
  const fact = await tryDestinations(sandbox({ proxy: REFUSES, names: TELLS }), policy("a.test"));
  expect(fact).toEqual({
    name: "network_rules",
    enforced: true,
    measured:
      "a.test resolves inside to 198.18.0.5, and was not connected to; " +
      "forbidden.invalid:443 was refused by the proxy (403); " +
      "forbidden.invalid does not exist inside; " +
      "169.254.169.254:80 was refused by the proxy (403); " +
      "127.0.0.1:8080 was refused by the proxy (403)",
  });
});

test.each<[string, Parameters<typeof sandbox>[0]]>([
  ["a proxy that opens everything", { proxy: () => "HTTP/1.1 200 OK\r\n\r\n", names: TELLS }],
  [
    "a proxy that opens the metadata service",
    {
      proxy: (request) => (request.includes("169.254") ? "HTTP/1.1 200 OK\r\n\r\n" : REFUSES()),
      names: TELLS,
    },
  ],
  ["a proxy that says nothing", { proxy: () => "", names: TELLS }],
  ["a proxy that says something else", { proxy: () => "x".repeat(9_000), names: TELLS }],
  [
    "a name server that knows every name",
    { proxy: REFUSES, names: (question) => answerOf(question, ["forbidden.invalid"]) },
  ],
])("rules are not enforced with %s", async (_, answers) => {
  const fact = await tryDestinations(sandbox(answers), policy("a.test"));
  expect(fact.enforced).toBe(false);
});

test("without a name server inside, an allowed name is not tried, because that would connect to it", async () => {
  const asked: string[] = [];
  const proxy = (request: string): Answer => {
    asked.push(request.split("\r\n")[0] ?? "");
    return REFUSES();
  };
  const fact = await tryDestinations(sandbox({ proxy, names: () => undefined }), policy("a.test"));
  expect(fact.enforced).toBe(true);
  expect(fact.measured).toContain("a.test cannot be asked for: there is no name server inside");
  expect(asked).toEqual([
    "CONNECT forbidden.invalid:443 HTTP/1.1",
    "CONNECT 169.254.169.254:80 HTTP/1.1",
    "CONNECT 127.0.0.1:8080 HTTP/1.1",
  ]);
});

test("destinations that the rules allow are not tried as forbidden", async () => {
  const rules = policy("*", "169.254.169.254:80", "127.0.0.1:*");
  const fact = await tryDestinations(sandbox({ proxy: REFUSES, names: TELLS }), rules);
  expect(fact.measured).not.toContain("169.254");
  expect(fact.measured).not.toContain("127.0.0.1:8080");
});
