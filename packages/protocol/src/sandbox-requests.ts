/** What programs in a sandbox ask of the daemon: the JSON of REQUEST frames on streams that the runner opens. */
import { z } from "zod";

/** Streams that the runner opens begin here; those of the daemon end before. */
export const FIRST_RUNNER_STREAM_ID = 0x8000_0000;
/** Credit that each direction of such a stream starts with. */
export const RUNNER_STREAM_CREDIT_BYTES = 131_072;
/** Up to which the runner may raise what the daemon can send on such a stream. */
export const RUNNER_STREAM_MAX_CREDIT_BYTES = 1_048_576;
/** Such streams that one connection may have open. */
export const MAX_RUNNER_STREAMS = 1_024;

const port = z.number().int().min(1).max(65_535);

/** A name or an address, as the program gave it: which of the two it is, and whether it is one, is for the gateway to judge. */
const host = z
  .string()
  .max(255)
  .regex(/^[A-Za-z0-9._:-]+$/);

// SECURITY: the runner may be captured by the code it runs. Hosts have no bytes that mean something
// to a resolver, a log or a header. Guarded by packages/daemon/src/channel/inbound-streams.test.ts.
export const sandboxRequestSchema = z.discriminatedUnion("op", [
  z.object({ op: z.literal("resolve"), name: host }),
  z.object({
    op: z.literal("connect"),
    host,
    port,
    via: z.enum(["transparent", "connect", "http", "socks5"]),
  }),
]);
export type SandboxRequest = z.output<typeof sandboxRequestSchema>;

/** Why the daemon refuses such a request, or ends a connection that it made. */
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

/** The network is open. `transparent`: names resolve and plain connections work. `proxy`: only the proxy does. */
export const networkReadyEventSchema = z
  .object({
    event: z.literal("ready"),
    mode: z.enum(["transparent", "proxy"]),
    proxy_port: port,
  })
  .transform(({ mode, proxy_port }) => ({ mode, proxyPort: proxy_port }));
export type NetworkReady = z.output<typeof networkReadyEventSchema>;
