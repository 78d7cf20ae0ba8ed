/**
 * Requests of programs in a sandbox to the daemon: the JSON of REQUEST frames on streams that the
 * runner opens.
 */
import { z } from "zod";

/** The first id of streams that the runner opens; the daemon's ids are below. */
export const FIRST_RUNNER_STREAM_ID = 0x8000_0000;
/** The initial credit of each direction of such a stream. */
export const RUNNER_STREAM_CREDIT_BYTES = 131_072;
/** The limit to which the runner may raise the daemon's credit on such a stream. */
export const RUNNER_STREAM_MAX_CREDIT_BYTES = 1_048_576;
/** The maximum number of such streams per connection. */
export const MAX_RUNNER_STREAMS = 1_024;

const port = z.number().int().min(1).max(65_535);

/** A name or an address, as the program gave it; the gateway decides which, and whether it is valid. */
const host = z
  .string()
  .max(255)
  .regex(/^[A-Za-z0-9._:-]+$/);

// SECURITY: code may take over the runner that runs it. Hosts contain no bytes with a meaning to a
// resolver, a log or a header. Guarded by packages/daemon/src/channel/inbound-streams.test.ts.
export const sandboxRequestSchema = z.discriminatedUnion("op", [
  z.object({ op: z.literal("resolve"), name: host }),
  z.object({
    op: z.literal("connect"),
    host,
    port,
    via: z.enum(["transparent", "connect", "http", "socks5"]),
  }),
]);

/** Why the daemon refuses such a request, or ends its connection. */
export type SandboxRefusalCode =
  /** By the policy. */
  | "denied"
  | "unresolved"
  | "refused"
  | "unreachable"
  | "timeout"
  | "reset"
  | "too_many"
  | "invalid";

/**
 * The network is open. `transparent`: names resolve and plain connections work. `proxy`: only the
 * proxy works.
 */
export const networkReadyEventSchema = z
  .object({
    event: z.literal("ready"),
    mode: z.enum(["transparent", "proxy"]),
    proxy_port: port,
  })
  .transform(({ mode, proxy_port }) => ({ mode, proxyPort: proxy_port }));
export type NetworkReady = z.output<typeof networkReadyEventSchema>;
