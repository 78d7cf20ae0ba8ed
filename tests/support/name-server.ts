/** A test name server: every name that it knows resolves to this machine. */
import { createSocket } from "node:dgram";

export interface NameServer extends AsyncDisposable {
  readonly address: string;
  /** The queried names. */
  readonly asked: ReadonlySet<string>;
}

const TYPE_A = 1;
const LOOPBACK = Buffer.from([127, 0, 0, 1]);

/** Answers 127.0.0.1 for names below `.test`, and that no other name exists. */
export async function startNameServer(): Promise<NameServer> {
  const asked = new Set<string>();
  const socket = createSocket("udp4");
  socket.on("message", (query, { port, address }) => {
    const { name, end } = nameIn(query);
    asked.add(name);
    const isKnown = name.endsWith(".test");
    const type = query.readUInt16BE(end);
    const hasAnswer = isKnown && type === TYPE_A;
    const head = Buffer.alloc(12);
    query.copy(head, 0, 0, 2);
    head.writeUInt16BE(isKnown ? 0x8180 : 0x8183, 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(hasAnswer ? 1 : 0, 6);
    const question = query.subarray(12, end + 4);
    // A pointer to the name in the question, type A, class IN, one minute, four bytes.
    const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, ...LOOPBACK]);
    socket.send(Buffer.concat([head, question, ...(hasAnswer ? [answer] : [])]), port, address);
  });
  await new Promise<void>((resolve) => {
    socket.bind(0, "127.0.0.1", resolve);
  });
  const { port } = socket.address();
  return {
    address: `127.0.0.1:${port}`,
    asked,
    [Symbol.asyncDispose]: async () => {
      await new Promise<void>((resolve) => {
        socket.close(() => resolve());
      });
    },
  };
}

/** The name in the first question, and where it ends. */
function nameIn(query: Buffer): { readonly name: string; readonly end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += length + 1;
  }
  return { name: labels.join(".").toLowerCase(), end: at + 1 };
}
