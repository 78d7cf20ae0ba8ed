/**
 * Every key of the configuration: its type, default and meaning. `docs/reference/config.md` is
 * generated from this file and the larger groups in `groups`.
 */
import type { z } from "zod";
import { BACKEND_NAMES } from "./backend-names.ts";
import {
  absolutePath,
  apiKey,
  daemonAddress,
  databaseUrl,
  hostAndPort,
  previewDomain,
  imageName,
  imagePattern,
  listenAddress,
  listOf,
  mapping,
  oneOf,
  ownerName,
  path,
  networkRule,
  webAddress,
  webOrigin,
  wholeNumber,
  yesOrNo,
} from "./kinds.ts";
import {
  MIB,
  GIB,
  MAX_BYTES,
  HOUR_SECONDS,
  DAY_SECONDS,
  YEAR_SECONDS,
  inodes,
  amount,
  bytes,
  group,
} from "./groups/units.ts";
import { docker } from "./groups/docker.ts";
import { images } from "./groups/images.ts";
import { jwt } from "./groups/jwt.ts";
import { maxLimits, sessionDefaults } from "./groups/limits.ts";
import { network } from "./groups/network.ts";
import { events, journal } from "./groups/records.ts";
import { telemetry } from "./groups/telemetry.ts";

export const configSchema = group({
  listen: listenAddress().default("127.0.0.1:8080").meta({
    description:
      "Address of the HTTP API, `host:port`; port 0 chooses a free port. Addresses other than loopback require a configured key",
  }),
  api_key: apiKey().optional().meta({
    description: "The key that clients send. Its owner is `default`, an administrator",
    secret: true,
    unset: "generated at the first start, in `api-key` in `data_dir`",
  }),
  api_keys: listOf(
    mapping({
      name: ownerName(),
      key: apiKey(),
      admin: yesOrNo().optional(),
      scope: oneOf("admin", "use", "read").optional(),
      max_sessions: amount().optional(),
      max_running_execs: amount().optional(),
      max_image_bytes: bytes(MIB).optional(),
      network_allow: listOf(networkRule()).optional(),
    }),
  )
    .default([])
    .meta({
      description:
        "Additional keys: a list of `name`, `key`, optionally `scope` (`admin`, `use` by default, or `read`; `admin: true` means `admin`), and, where they differ from `quotas`, `max_sessions`, `max_running_execs` and `max_image_bytes`. `network_allow` is a list of rules as in `network.allow`, which narrows it for this key. Each key is a separate owner, whose sessions and images do not exist for others. Images of an administrator are shared with all. As a variable: `name=key,name=key`",
      secret: true,
    }),
  data_dir: path().optional().meta({
    description: "Directory for sandboxes, images, output and the database",
    unset:
      "`/var/lib/sandkasten` for root, else `sandkasten` below `$XDG_DATA_HOME` or `~/.local/share`",
  }),
  db_path: path().default("sandkasten.db").meta({
    description: "The database; relative to `data_dir`. Not used with `database_url`",
  }),
  database_url: databaseUrl().optional().meta({
    description:
      "A Postgres database instead of `db_path`, as `postgresql://user:password@host/database`. Several daemons can share it; the output of their commands is then stored there as well",
    secret: true,
    unset: "the file at `db_path`",
  }),
  cluster: group({
    address: daemonAddress().optional().meta({
      description:
        "Where other daemons with the same `database_url` reach this one, as `http://10.0.0.1:8080`. Requests for sessions that this daemon serves are forwarded to it",
      unset: "nothing is forwarded to this daemon",
    }),
    secret: apiKey().optional().meta({
      description:
        "Secret that daemons with the same database use to authenticate to each other; the same for all",
      secret: true,
      unset: "requests are not forwarded",
    }),
  }).prefault({}),
  dashboard: group({
    agents_url: webAddress().optional().meta({
      description:
        "Where the agent service is, as `http://127.0.0.1:8587`. Administrators see its runs in the dashboard and decide about those that wait",
      unset:
        "the dashboard shows no runs, except those of the service that `sandkasten start` starts",
    }),
    agents_api_key: apiKey().optional().meta({
      description: "The key of the agent service",
      secret: true,
      unset: "none is sent",
    }),
  }).prefault({}),
  default_image: imageName().optional().meta({
    description: "Image of sessions that do not name one",
    unset: "`host` on the backend `oci`, `linux` on `docker`",
  }),
  allowed_images: listOf(imagePattern()).default([]).meta({
    description:
      "Images that can be used: names, or patterns with `*` (within a path segment) and `**` (across them). Empty allows all",
  }),
  images: images.prefault({}),
  backend: oneOf("auto", ...BACKEND_NAMES)
    .default("auto")
    .meta({
      description:
        "What runs sandboxes: `oci` on this machine, `docker` on a Docker engine; `auto` uses `oci` if it works, otherwise `docker`",
    }),
  backends: listOf(oneOf(...BACKEND_NAMES))
    .default([])
    .meta({
      description: "Additional backends that a session can choose by name",
    }),
  docker: docker.prefault({}),
  network: network.prefault({}),
  runtime: oneOf("auto", "crun", "runc", "runsc").default("auto").meta({
    description:
      "The OCI runtime; `auto` chooses by version; `runsc` (gVisor) must be chosen explicitly",
  }),
  runtime_dir: absolutePath().optional().meta({
    description: "A directory with `crun`, `runc` or `runsc` to use instead of the system's",
    unset: "none",
  }),
  session_ttl_seconds: wholeNumber(1, DAY_SECONDS).default(1800).meta({
    description: "Sessions expire after this time without use, unless a request sets another time",
  }),
  max_session_lifetime_seconds: wholeNumber(1, YEAR_SECONDS)
    .default(4 * HOUR_SECONDS)
    .meta({
      description: "Maximum lifetime of a session, used or not",
    }),
  defaults: sessionDefaults.prefault({}),
  max_limits: maxLimits.prefault({}),
  allow_strong_isolation: yesOrNo().default(true).meta({
    description:
      "Whether requests can use `isolation: strong`: a separate kernel with gVisor, if it is installed",
  }),
  allow_root_profile: yesOrNo().default(true).meta({
    description: "Whether requests can use the profile `root` (root inside, writable image)",
  }),
  pool: listOf(
    mapping({
      image: imageName(),
      size: wholeNumber(0, 1000),
      profile: oneOf("restricted", "root").optional(),
      network: yesOrNo().optional(),
    }),
  )
    .optional()
    .meta({
      description:
        "Sandboxes to keep ready: a list of `image`, `size` and optionally `profile`, and `network: true` for sessions that ask for a network. As a variable: `image=size,image=size`. An empty list, or a size of 0, keeps none ready",
      unset: "two of the default image, if it is local",
    }),
  quotas: group({
    max_sessions: amount().default(1000).meta({
      description: "Active sessions per key",
    }),
    max_running_execs: amount().default(256).meta({
      description: "Running commands per key",
    }),
    max_workspaces: amount().default(1000).meta({
      description: "Persistent workspaces per key, in use or not",
    }),
    max_image_bytes: bytes(MIB)
      .default(20 * GIB)
      .meta({
        description:
          "Disk space for the images of one key; those of an administrator are not counted",
      }),
  }).prefault({}),
  shutdown: oneOf("keep", "destroy").default("keep").meta({
    description:
      "What happens to sandboxes when the daemon stops: `keep` leaves them running for the next daemon",
  }),
  workspace: group({
    disk_limit_mb: wholeNumber(16, MAX_BYTES / MIB)
      .default(1024)
      .meta({
        description: "Disk of a new persistent workspace, in MiB",
      }),
    disk_inodes: inodes().default(65_536).meta({
      description: "Files and directories that it can hold",
    }),
  }).prefault({}),
  journal: journal.prefault({}),
  jwt: jwt.prefault({}),
  events: events.prefault({}),
  http: group({
    // SECURITY: parsing JSON blocks all other requests, so larger content must be sent as bytes.
    // Guarded by stalls.test.ts.
    max_body_bytes: wholeNumber(1024, 8 * MIB)
      .default(8 * MIB)
      .meta({
        description:
          "Maximum size of a JSON request with a file or a command's input; 256 KiB for all others",
      }),
    max_upload_bytes: bytes(1024)
      .default(10 * GIB)
      .meta({
        description: "Size of an uploaded file or archive",
      }),
    allowed_hosts: listOf(hostAndPort()).default([]).meta({
      description: "Additional names, `name` or `name:port`, that a request's Host header can have",
    }),
    allowed_origins: listOf(webOrigin()).default([]).meta({
      description: "Origins of web pages that can call the API, as `https://app.example.com`",
    }),
  }).prefault({}),
  preview: group({
    domain: previewDomain().optional().meta({
      description:
        "Domain, `name` or `name:port`, below which each port of a session has a separate name (`8000-<session>.<domain>`). A wildcard DNS record must lead from it to the daemon",
      unset: "`localhost`, for visitors on the daemon's own machine",
    }),
    scheme: oneOf("http", "https").default("http").meta({
      description: "Scheme of preview URLs; `https` behind a proxy that terminates TLS",
    }),
    max_seconds: wholeNumber(1, 30 * DAY_SECONDS)
      .default(DAY_SECONDS)
      .meta({ description: "Maximum lifetime of a preview URL" }),
    max_connections: wholeNumber(1, 256).default(128).meta({
      description: "Open connections to ports per session",
    }),
  }).prefault({}),
  output_budget_bytes: wholeNumber(0, 16 * MIB)
    .default(MIB)
    .meta({
      description:
        "Maximum output in a response, from its beginning and end; read the rest by cursor",
    }),
  telemetry: telemetry.prefault({}),
  log_level: oneOf("trace", "debug", "info", "warn", "error", "fatal", "silent")
    .default("info")
    .meta({ description: "Minimum level of log messages" }),
});

/** All values, merged and validated, under their names in the file. */
export type ConfigValues = z.output<typeof configSchema>;
