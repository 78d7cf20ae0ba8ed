/** Where a session may connect to, and where it has connected. */
import { z } from "zod";
import { count, countInQuery, pageSizeInQuery, plainText, timestamp } from "./common.ts";

const MAX_RULES = 512;
/** A host name has at most 253 characters; the rest is for its ports. */
const MAX_RULE_LENGTH = 512;

const allow = z
  .array(plainText(MAX_RULE_LENGTH).min(1))
  .max(MAX_RULES)
  .meta({
    description:
      "Where programs can connect to: hosts (`api.example.com`), hosts below a name (`*.example.com`), networks (`10.1.2.0/24`), `*` for every public host, each optionally with ports (`:443`, `:80,443`, `:8000-8100`, `:*`; 80 and 443 when absent), and presets of the administrator by name",
    example: ["api.example.com", "*.example.org:443,8443", "10.1.2.0/24:5432"],
  });

const networkWord = z.enum(["none", "full"]);

/** Older clients use `enabled` to request the administrator's default. */
const networkObject = z.object({ allow: allow.optional(), enabled: z.boolean().optional() });

export const networkRequestSchema = z.union([z.boolean(), networkWord, networkObject]).meta({
  description:
    "`none`, `full` (every public address), or what is allowed. `true` asks for the administrator's default. A request for more than the administrator allows is refused. With an empty `allow`, destinations can be allowed later",
});
export type NetworkRequestBody = z.input<typeof networkRequestSchema>;

const secretRequestSchema = z
  .object({
    host: z.string().min(1).max(253).meta({ example: "api.example.com" }),
    header: z.string().min(1).max(128).meta({ example: "Authorization" }),
    value: z.string().min(1).max(16_384).optional().meta({
      description: "The header's value. It is encrypted at rest and never returned",
      writeOnly: true,
    }),
    name: z.string().min(1).max(64).optional().meta({
      description: "The name of a secret that the administrator configured, instead of `value`",
    }),
  })
  .meta({ id: "Secret" });

export const secretsRequestSchema = z.array(secretRequestSchema).max(32).meta({
  description:
    "Headers that the gateway adds to HTTPS requests to a host, so their values never enter the sandbox. The gateway terminates TLS for these hosts with a certificate authority that only this sandbox trusts",
});

/** The visible part of a session's secrets. */
export const secretHeadersSchema = z.array(
  z.object({ host: z.string(), header: z.string(), name: z.string().optional() }),
);

export const networkSchema = z.union([networkWord, z.object({ allow })]).meta({
  description:
    "`none` means only a loopback interface, `full` every public address; otherwise the allowed destinations, with presets resolved",
});

export const changeNetworkSchema = z
  .object({ network: networkRequestSchema.optional(), allow: allow.optional() })
  .refine((body) => (body.network === undefined) !== (body.allow === undefined), {
    message: "must have either network or allow",
  })
  .meta({ id: "ChangeNetwork" });
export type ChangeNetworkBody = z.input<typeof changeNetworkSchema>;

const via = z.string().meta({
  description:
    "How the program asked: `transparent` (a plain connection), `connect`, `http` or `socks5` (through a proxy), `dns` (a name that is not resolved)",
});
const name = z.string().optional().meta({ description: "The requested host name" });
const address = z.string().optional().meta({ description: "The address of the connection" });

const egressRecordSchema = z
  .object({
    cursor: count.meta({ description: "Increases within the session" }),
    started_at: timestamp,
    ended_at: timestamp,
    name,
    address,
    port: z.number().int().optional(),
    via,
    verdict: z.enum(["allowed", "refused", "failed"]).meta({
      description:
        "`refused`: by the policy, a limit or the TLS name check. `failed`: by a network error",
    }),
    reason: z.string().optional().meta({ description: "Why it was refused or failed" }),
    sent_bytes: count,
    received_bytes: count,
    count: count.meta({ description: "How many identical attempts this record represents" }),
  })
  .meta({ id: "EgressRecord" });
export type EgressRecordBody = z.output<typeof egressRecordSchema>;

export const egressPageSchema = z
  .object({
    records: z.array(egressRecordSchema).meta({ description: "Connections that have ended" }),
    cursor: count.meta({ description: "The cursor of the next page" }),
    missing: count.meta({
      description: "How many records before the first one are no longer kept",
    }),
    open: z
      .array(
        z
          .object({
            started_at: timestamp,
            name,
            address,
            port: z.number().int(),
            via,
            sent_bytes: count,
            received_bytes: count,
          })
          .meta({ id: "OpenEgress" }),
      )
      .meta({ description: "Connections that are open now" }),
  })
  .meta({ id: "EgressPage" });
export type EgressPageBody = z.output<typeof egressPageSchema>;

export const egressQuery = z.object({
  cursor: countInQuery
    .optional()
    .meta({ description: "Only records after this one. All records by default" }),
  limit: pageSizeInQuery.optional(),
});
