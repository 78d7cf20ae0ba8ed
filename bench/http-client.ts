/** A client with little overhead: persistent connections, and bodies that are only counted. */
import type { Buffer } from "node:buffer";
import { Readable } from "node:stream";
import { Pool } from "undici";
import type { Dispatcher } from "undici";

const SHOWN_ANSWER = 1000;

type Answer = Dispatcher.ResponseData;

export class HttpClient {
  readonly #pool: Pool;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(url: string, apiKey?: string) {
    // Collecting a gigabyte takes time that the client must not limit.
    this.#pool = new Pool(url, { headersTimeout: 0, bodyTimeout: 0 });
    this.#headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  /** One request with JSON both ways. */
  async call<T>(method: Dispatcher.HttpMethod, path: string, body?: unknown): Promise<T> {
    return JSON.parse(await this.text(method, path, body)) as T;
  }

  async text(method: Dispatcher.HttpMethod, path: string, body?: unknown): Promise<string> {
    return await (await this.#send(method, path, body)).body.text();
  }

  /** A whole list, page by page. The path already has a query. */
  async list<T>(path: string): Promise<T[]> {
    const all: T[] = [];
    let cursor: string | undefined;
    do {
      const from = cursor === undefined ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const { headers, body } = await this.#send("GET", `${path}${from}`);
      all.push(...((await body.json()) as T[]));
      cursor = headers["x-next-cursor"]?.toString();
    } while (cursor !== undefined);
    return all;
  }

  /** Sends this many bytes and waits for the response. */
  async upload(path: string, bytes: number, portion: Uint8Array): Promise<void> {
    const headers = {
      "content-type": "application/octet-stream",
      "content-length": String(bytes),
    };
    const { body } = await this.#request(
      "PUT",
      path,
      headers,
      Readable.from(portions(bytes, portion)),
    );
    await body.dump();
  }

  /** Passes on each piece of the response as it arrives, and returns the number of bytes. */
  async read(
    method: Dispatcher.HttpMethod,
    path: string,
    body?: unknown,
    onPiece?: (piece: Buffer) => void,
  ): Promise<number> {
    let received = 0;
    const answer = await this.#send(method, path, body);
    for await (const piece of answer.body as AsyncIterable<Buffer>) {
      received += piece.byteLength;
      onPiece?.(piece);
    }
    return received;
  }

  async #send(method: Dispatcher.HttpMethod, path: string, body?: unknown): Promise<Answer> {
    if (body === undefined) return await this.#request(method, path, {}, null);
    const headers = { "content-type": "application/json" };
    return await this.#request(method, path, headers, JSON.stringify(body));
  }

  /** Any response but a success is an error here. */
  async #request(
    method: Dispatcher.HttpMethod,
    path: string,
    headers: Readonly<Record<string, string>>,
    body: string | Readable | null,
  ): Promise<Answer> {
    const answer = await this.#pool.request({
      method,
      path,
      headers: { ...this.#headers, ...headers },
      body,
    });
    const { statusCode } = answer;
    if (statusCode >= 200 && statusCode < 300) return answer;
    const text = (await answer.body.text()).slice(0, SHOWN_ANSWER);
    throw new Error(`${method} ${path} was answered with ${statusCode}: ${text}`);
  }
}

function* portions(bytes: number, portion: Uint8Array): Generator<Uint8Array> {
  for (let left = bytes; left > 0; left -= portion.byteLength)
    yield left < portion.byteLength ? portion.subarray(0, left) : portion;
}
