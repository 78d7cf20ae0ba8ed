/** A client that costs little: plain `node:http`, connections that are kept, bodies that are only counted. */
import { Buffer } from "node:buffer";
import { once } from "node:events";
import { Agent, request } from "node:http";
import type { ClientRequest, IncomingMessage } from "node:http";

const SHOWN_ANSWER = 1000;

export class HttpClient {
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #agent = new Agent({ keepAlive: true });

  constructor(url: string, apiKey?: string) {
    this.#url = url;
    this.#headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  }

  close(): void {
    this.#agent.destroy();
  }

  /** One request with JSON both ways. */
  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    return JSON.parse(await this.text(method, path, body)) as T;
  }

  async text(method: string, path: string, body?: unknown): Promise<string> {
    return await textOf(await this.#send(method, path, body));
  }

  /** All of a list, page after page. The path has a query already. */
  async list<T>(path: string): Promise<T[]> {
    const all: T[] = [];
    let cursor: string | undefined;
    do {
      const from = cursor === undefined ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const response = await this.#send("GET", `${path}${from}`);
      all.push(...(JSON.parse(await textOf(response)) as T[]));
      cursor = response.headers["x-next-cursor"]?.toString();
    } while (cursor !== undefined);
    return all;
  }

  /** Sends so many bytes and waits for the answer to them. */
  async upload(path: string, bytes: number, portion: Uint8Array): Promise<void> {
    const upload = this.#begin("PUT", path, {
      "content-type": "application/octet-stream",
      "content-length": String(bytes),
    });
    const answer = answerTo(upload);
    for (let left = bytes; left > 0; left -= portion.byteLength)
      if (!upload.write(left < portion.byteLength ? portion.subarray(0, left) : portion))
        await Promise.race([once(upload, "drain"), answer]);
    upload.end();
    await textOf(await answer);
  }

  /** Shows each piece of the answer as it comes, and answers how many bytes they were. */
  async read(
    method: string,
    path: string,
    body?: unknown,
    onPiece?: (piece: Buffer) => void,
  ): Promise<number> {
    const response = await this.#send(method, path, body);
    let received = 0;
    response.on("data", (piece: Buffer) => {
      received += piece.byteLength;
      onPiece?.(piece);
    });
    await once(response, "end");
    return received;
  }

  async #send(method: string, path: string, body?: unknown): Promise<IncomingMessage> {
    if (body === undefined) return await answerTo(this.#begin(method, path).end());
    const bytes = Buffer.from(JSON.stringify(body));
    const headers = {
      "content-type": "application/json",
      "content-length": String(bytes.byteLength),
    };
    return await answerTo(this.#begin(method, path, headers).end(bytes));
  }

  #begin(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>> = {},
  ): ClientRequest {
    const all = { ...this.#headers, ...headers };
    return request(`${this.#url}${path}`, { method, agent: this.#agent, headers: all });
  }
}

/** The answer's head. Whatever is not a success is an error here. */
async function answerTo(begun: ClientRequest): Promise<IncomingMessage> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    begun.once("response", resolve).once("error", reject);
  });
  const status = response.statusCode ?? 0;
  if (status >= 200 && status < 300) return response;
  const answer = (await textOf(response)).slice(0, SHOWN_ANSWER);
  throw new Error(`${begun.method} ${begun.path} was answered with ${status}: ${answer}`);
}

async function textOf(response: IncomingMessage): Promise<string> {
  return await new Promise((resolve, reject) => {
    const pieces: Buffer[] = [];
    response
      .on("data", (piece: Buffer) => pieces.push(piece))
      .once("end", () => resolve(Buffer.concat(pieces).toString()))
      .once("error", reject);
  });
}
