/** Ports of a session: listeners, links to them, and connections. */
import { z } from "zod";
import { numberInQuery, timestamp } from "./common.ts";

const MAX_PORT = 65_535;
/** The minimum window of a connection before it waits for an acknowledgement. */
const MIN_WINDOW_BYTES = 16_384;
const MAX_WINDOW_BYTES = 16_777_216;

export const portInPath = z
  .string()
  .regex(/^[1-9]\d{0,4}$/, "must be a port from 1 to 65535")
  .transform(Number)
  .refine((port) => port <= MAX_PORT, "must be a port from 1 to 65535")
  .meta({ type: "integer", pattern: undefined, minimum: 1, maximum: MAX_PORT });

export const portListBodySchema = z.object({
  ports: z.array(
    z
      .object({
        port: z.number().int().min(1).max(MAX_PORT),
        address: z.string().meta({
          description: "The address it listens on. Previews reach loopback and wildcard addresses",
          example: "127.0.0.1",
        }),
        pid: z.number().int().optional().meta({ description: "Process id inside the sandbox" }),
        process: z.string().optional().meta({ description: "Name of the process" }),
      })
      .meta({ id: "ListeningPort" }),
  ),
});
export type PortListBody = z.output<typeof portListBodySchema>;

export const previewUrlRequestSchema = z.object({
  expires_in_seconds: z
    .number()
    .int()
    .min(0)
    .optional()
    .meta({ description: "How long the URL works. 0 or absent means one hour" }),
});

export const previewUrlBodySchema = z.object({ url: z.url(), expires_at: timestamp });
export type PreviewUrlBody = z.output<typeof previewUrlBodySchema>;

export const connectQuery = z.object({
  window: numberInQuery(MIN_WINDOW_BYTES, MAX_WINDOW_BYTES).optional().meta({
    description: "How many unacknowledged bytes each side may send. No limit if absent",
  }),
});

const ack = z.object({
  type: z.literal("ack"),
  bytes: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
});

/** Text messages of the client; its binary messages are bytes for the port. */
export const portClientMessageSchema = z.discriminatedUnion("type", [
  z.object({ type: z.literal("eof") }),
  ack,
]);
export type PortClientMessage = z.output<typeof portClientMessageSchema>;

/** Text messages of the daemon; its binary messages are bytes from the port. */
export type PortServerMessage =
  | { readonly type: "connected" }
  | { readonly type: "eof" }
  | { readonly type: "ack"; readonly bytes: number }
  | {
      readonly type: "error";
      readonly error: { readonly error_code: string; readonly message: string };
    };
