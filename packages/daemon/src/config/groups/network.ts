/** The keys below `network`. */
import {
  absolutePath,
  listOf,
  mapping,
  ownerName,
  headerName,
  hostName,
  nameServer,
  networkRule,
  presetName,
  text,
  wholeNumber,
} from "../kinds.ts";
import { MIB, GIB, bytes, group } from "./units.ts";

export const network = group({
  allow: listOf(networkRule()).default([]).meta({
    description:
      "The most that sandboxes can reach, as a list of rules: a host (`api.example.com`), the hosts below a name (`*.example.com`), a network (`10.1.2.0/24`, `[2001:db8::/32]`), every public host (`*`), each with ports (`:443`, `:80,443`, `:8000-8100`, `:*`) where they are not 80 and 443, the name of a preset, or `full` for every public address on every port. Requests that exceed it are refused. Private addresses need a rule that names them",
  }),
  default: listOf(networkRule()).optional().meta({
    description:
      "The network of sessions whose request asks for one without saying which (`network: true`), as a list of rules",
    unset: "all that `network.allow` allows",
  }),
  presets: listOf(mapping({ name: presetName(), allow: listOf(networkRule()) }))
    .default([])
    .meta({
      description:
        "Names for lists of rules: a list of `name` and `allow`. A request can use the name like a rule",
    }),
  max_connections: wholeNumber(1, 4096).default(512).meta({
    description: "Maximum number of open outbound connections of one sandbox",
  }),
  max_connections_per_second: wholeNumber(1, 100_000).default(100).meta({
    description:
      "New connections out of one sandbox, on average; a burst can have `network.max_connections`",
  }),
  max_total_bytes: bytes(0)
    .default(100 * GIB)
    .meta({
      description: "Bytes, both ways together, that one session can transfer; 0 for no limit",
    }),
  max_bytes_per_second: bytes(0)
    .default(256 * MIB)
    .meta({ description: "Bandwidth of one session, both ways together; 0 for no limit" }),
  name_servers: listOf(nameServer()).optional().meta({
    description: "Name servers that the gateway asks, as `address` or `address:port`",
    unset: "those of `/etc/resolv.conf`",
  }),
  ca_file: absolutePath().optional().meta({
    description:
      "Additional PEM certificates that the gateway trusts when it adds secrets to requests, for hosts with a private certificate authority",
    unset: "none",
  }),
  secrets: listOf(
    mapping({
      name: ownerName(),
      value: text("must be one line of visible characters", (value) =>
        /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value),
      ),
      host: hostName(),
      header: headerName(),
      keys: listOf(ownerName()).optional(),
    }),
  )
    .default([])
    .meta({
      description:
        "Secrets that requests can use by name without knowing them: a list of `name`, `value`, the `host` and the `header` that it is for, and optionally `keys`, the names of the API keys that may use it. As a variable: the list as JSON",
      secret: true,
    }),
});
