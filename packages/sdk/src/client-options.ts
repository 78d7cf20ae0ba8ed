/** The options of a client. */
import { camelOptions, type WithSnakeNames } from "./snake-names.ts";
import type { TransportOptions } from "./transport.ts";
import type { WebSocketConstructor } from "./web-socket.ts";

const DEFAULT_URL = "http://127.0.0.1:8080";
const DEFAULT_TIMEOUT_MS = 60_000;
const DEFAULT_RETRIES = 2;
const DEFAULT_RETRY_DELAY_MS = 250;

interface ClientOptionFields {
  /**
   * The daemon's URL: `SANDKASTEN_URL` in Node's environment, else `http://127.0.0.1:8080` by default.
   * A path in it is put before `/v1`.
   */
  readonly baseUrl?: string | URL | undefined;
  /**
   * A key of the daemon. When absent, the variable `SANDKASTEN_API_KEY` of Node's environment;
   * `null` sends no key.
   */
  readonly apiKey?: string | null | undefined;
  /** Used instead of the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch | undefined;
  /** Used for terminals instead of the global `WebSocket`. */
  readonly webSocket?: WebSocketConstructor | undefined;
  /**
   * How long the daemon may take to respond, 60,000 by default; 0 means no limit. Calls that wait for
   * something, such as the end of a command, or that move files, are not bound by it.
   */
  readonly timeoutMs?: number | undefined;
  /** How many times a request is retried when that is safe, 2 by default. */
  readonly maxRetries?: number | undefined;
  /** The longest delay before the first retry, 250 by default. It doubles with each retry. */
  readonly retryDelayMs?: number | undefined;
}

/** Everything has a default. */
export type ClientOptions = WithSnakeNames<ClientOptionFields>;

export function toTransportOptions(given: ClientOptions): TransportOptions {
  const options = camelOptions(given);
  const apiKey =
    options.apiKey === undefined ? variable("SANDKASTEN_API_KEY") : (options.apiKey ?? undefined);
  if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new TypeError(
      "apiKey must be printable ASCII without spaces, because it is sent in a header.",
    );
  }
  return {
    baseUrl: checkedUrl(options.baseUrl ?? variable("SANDKASTEN_URL") ?? DEFAULT_URL),
    apiKey,
    // Looked up on each call, and called as a method of the global object, as browsers require.
    fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
    webSocket: options.webSocket,
    timeoutMs: options.timeoutMs ?? DEFAULT_TIMEOUT_MS,
    maxRetries: options.maxRetries ?? DEFAULT_RETRIES,
    retryDelayMs: options.retryDelayMs ?? DEFAULT_RETRY_DELAY_MS,
  };
}

/** A non-empty variable of Node's environment; browsers have none. */
function variable(name: string): string | undefined {
  const { process } = globalThis as {
    readonly process?: { readonly env?: Readonly<Record<string, string | undefined>> };
  };
  const value = process?.env?.[name];
  return value === "" ? undefined : value;
}

function checkedUrl(given: string | URL): URL {
  const text = String(given);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new TypeError(`baseUrl must be like ${DEFAULT_URL}, not "${text}".`);
  }
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw new TypeError("baseUrl must have no user, query or fragment; a key goes into apiKey.");
  }
  return url;
}
