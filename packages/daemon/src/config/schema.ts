/**
 * Every key of the configuration: its type, default and meaning. `docs/reference/config.md` is
 * generated from this file.
 */
import { BACKEND_NAMES } from "./backend-names.ts";
import { z } from "zod";
import { DEFAULT_MAX_TOTAL_BYTES } from "../images/local-image-store.ts";
import { DEFAULT_REGISTRIES } from "../images/registry-policy.ts";
import { DEFAULT_UNPACK_LIMITS } from "../images/unpack-budget.ts";
import {
  absolutePath,
  claimName,
  keySetUrl,
  plainWords,
  publicKeyPem,
  anyNumber,
  apiKey,
  daemonAddress,
  databaseUrl,
  engineAddress,
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
  headerName,
  hostName,
  networkName,
  nameServer,
  networkRule,
  presetName,
  registryName,
  runtimeName,
  text,
  serviceName,
  headerPairs,
  volumeName,
  webAddress,
  webOrigin,
  wholeNumber,
  yesOrNo,
} from "./kinds.ts";

const MIB = 2 ** 20;
const GIB = 2 ** 30;
const MAX_BYTES = 2 ** 43;
const HOUR_SECONDS = 3600;
const DAY_SECONDS = 86_400;
const YEAR_SECONDS = 365 * DAY_SECONDS;

const cpus = () => anyNumber(0.01, 1000);
const memoryMb = () => wholeNumber(16, MAX_BYTES / MIB);
const processes = () => wholeNumber(16, 4_000_000);
const diskMb = () => wholeNumber(4, MAX_BYTES / MIB);
const inodes = () => wholeNumber(64, 2 ** 31);
/** Fits into a timer, which can wait at most 24 days. */
const MAX_EXEC_DAYS = 20;
const amount = () => wholeNumber(1, 1_000_000);
const bytes = (least: number) => wholeNumber(least, MAX_BYTES);

/** A key that only contains others. */
const group = <Shape extends z.ZodRawShape>(shape: Shape) => z.strictObject(shape);

const sessionDefaults = group({
  cpu_limit: cpus().default(1).meta({ description: "CPUs that a sandbox can use" }),
  mem_limit_mb: memoryMb().default(512).meta({ description: "Memory of a sandbox, in MiB" }),
  pids_limit: processes().default(256).meta({
    description: "Maximum number of processes and threads in a sandbox",
  }),
  disk_limit_mb: diskMb().default(1024).meta({
    description: "Writable disk of a sandbox, in MiB",
  }),
  disk_inodes: inodes().default(65_536).meta({
    description: "Files and directories that this disk can hold",
  }),
  max_exec_timeout_ms: wholeNumber(1, MAX_EXEC_DAYS * DAY_SECONDS * 1000)
    .default(DAY_SECONDS * 1000)
    .meta({
      description:
        "Longest timeout of a command, in milliseconds, and the timeout of requests without one; longer timeouts are lowered to this, and the response says so",
    }),
  network_mode: text(
    "must be none: a sandbox has a network only if its request asks for it, and docker.network allows it",
    (value) => value === "none",
  )
    .default("none")
    .meta({
      description:
        "Network of sandboxes whose request names none; only `none` (loopback only) is supported",
    }),
  readonly_rootfs: yesOrNo().default(true).meta({
    description:
      "Whether the image is read-only and code runs as uid 1000 (profile `restricted`); `false` makes `root` the default profile",
  }),
});

const maxLimits = group({
  cpu_limit: cpus().default(16).meta({ description: "Maximum CPUs that a request can set" }),
  mem_limit_mb: memoryMb().default(16_384).meta({
    description: "Maximum memory that a request can set, in MiB",
  }),
  pids_limit: processes().default(16_384).meta({
    description: "Maximum processes that a request can set",
  }),
  disk_limit_mb: diskMb().default(65_536).meta({
    description: "Maximum disk that a request can set, in MiB",
  }),
  disk_inodes: inodes().default(4_194_304).meta({
    description: "Maximum number of files and directories that a request can set",
  }),
});

const images = group({
  registries: listOf(registryName())
    .default([...DEFAULT_REGISTRIES])
    .meta({
      description:
        "Registries that images can be pulled from, as `host` or `host:port`; `*` allows all that have a public address. A registry with a private address must be listed by name, and a registry on this machine by its address, as in `127.0.0.1:5000`",
    }),
  insecure_registries: listOf(hostAndPort()).default([]).meta({
    description:
      "Registries (`host:port`) that are used without TLS; they need no entry in `images.registries`",
  }),
  credentials_file: absolutePath().optional().meta({
    description:
      "The file with the credentials for registries on the backend `oci`, in the form of Docker's `config.json`",
    unset: "`/run/containers/UID/auth.json`",
  }),
  require_digests: yesOrNo().default(false).meta({
    description: "Whether images can only be pulled by digest, as in `name@sha256:…`",
  }),
  pull_timeout_seconds: wholeNumber(1, DAY_SECONDS).default(1800).meta({
    description: "Timeout for downloading an image",
  }),
  max_unpacked_bytes: bytes(MIB).default(DEFAULT_UNPACK_LIMITS.totalBytes).meta({
    description: "Size of one image after decompression",
  }),
  max_archive_bytes: bytes(MIB).default(DEFAULT_UNPACK_LIMITS.archiveBytes).meta({
    description: "Size of a download or an archive before decompression",
  }),
  max_file_bytes: bytes(MIB).default(DEFAULT_UNPACK_LIMITS.fileBytes).meta({
    description: "Size of one file in an image",
  }),
  max_entries: wholeNumber(1, 100_000_000).default(DEFAULT_UNPACK_LIMITS.entries).meta({
    description: "Files and directories of one image, all layers together",
  }),
  max_compression_ratio: wholeNumber(1, 100_000)
    .default(DEFAULT_UNPACK_LIMITS.compressionRatio)
    .meta({
      description:
        "Maximum ratio of an image's unpacked size to its archive, beyond the first 64 MiB",
    }),
  max_total_bytes: bytes(MIB).default(DEFAULT_MAX_TOTAL_BYTES).meta({
    description: "Disk space of all images together, on the backend `oci`",
  }),
  max_layers: wholeNumber(1, 1000).default(DEFAULT_UNPACK_LIMITS.layers).meta({
    description: "Layers of one image",
  }),
});

const docker = group({
  host: engineAddress().default("unix:///var/run/docker.sock").meta({
    description: "Address of the engine: `unix:///path`, `tcp://host:port` or `ssh://user@host`",
  }),
  cert_path: absolutePath().optional().meta({
    description: "Directory with `ca.pem`, `cert.pem` and `key.pem` for an engine that uses TLS",
    unset: "no TLS",
  }),
  config_dir: absolutePath().optional().meta({
    description: "Directory of Docker's `config.json`, which has the credentials for registries",
    unset: "`~/.docker`",
  }),
  pull_policy: oneOf("never", "missing", "always").default("missing").meta({
    description: "When images are pulled for a session: `never`, only if `missing`, or `always`",
  }),
  workspace: oneOf("auto", "bind", "shared-volume", "volume", "exec").default("auto").meta({
    description:
      "Where `/workspace` is kept: a directory of this machine (`bind`), a sub-directory of one volume (`shared-volume`), a volume for each session (`volume`), or only the container (`exec`); `auto` detects what works",
  }),
  workspace_dir: absolutePath().default("/tmp/station-sandboxes").meta({
    description: "Where `bind` keeps the directories of sessions",
  }),
  shared_volume: volumeName().default("station-sandboxes").meta({
    description: "The volume of `shared-volume`",
  }),
  shared_dir: absolutePath().default("/shared-sandboxes").meta({
    description: "Where that volume is mounted in the daemon's own container",
  }),
  network: networkName().optional().meta({
    description:
      "The engine's network for sandboxes whose request asks for one, such as `bridge`; never the machine's own (`host`)",
    unset: "requests for a network are refused",
  }),
  runtime: runtimeName().optional().meta({
    description: "A runtime that the engine knows by name, such as `runsc` or `sysbox-runc`",
    unset: "the engine's default",
  }),
});

const network = group({
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
  journal: group({
    max_bytes_per_exec: bytes(65_536)
      .default(256 * MIB)
      .meta({
        description: "Output that is kept per command; beyond it, the middle is dropped",
      }),
    max_bytes_per_session: bytes(65_536).default(GIB).meta({
      description: "Output that is kept per session",
    }),
    max_bytes_per_key: bytes(65_536)
      .default(8 * GIB)
      .meta({
        description:
          "Output that is kept per API key; beyond it, the output of ended sessions is deleted, oldest first",
      }),
    max_bytes: bytes(65_536)
      .default(32 * GIB)
      .meta({
        description: "The same for all API keys together",
      }),
    retention_seconds: wholeNumber(0, YEAR_SECONDS).default(DAY_SECONDS).meta({
      description: "How long output is kept after its session has ended",
    }),
  }).prefault({}),
  jwt: group({
    issuer: plainWords().optional().meta({
      description:
        "Issuer of tokens (the claim `iss`) that are accepted instead of keys; requires `jwt.audience` and one of `jwt.jwks_file`, `jwt.jwks_uri` and `jwt.public_key`",
      unset: "no tokens are accepted",
    }),
    audience: plainWords().optional().meta({
      description: "Required audience of tokens (the claim `aud`)",
      unset: "none",
    }),
    jwks_file: absolutePath().optional().meta({
      description: "A file with the issuer's public keys as a JSON Web Key Set; read at the start",
      unset: "none",
    }),
    jwks_uri: keySetUrl().optional().meta({
      description: "URL where the issuer serves that set; fetched on demand and cached",
      unset: "none",
    }),
    public_key: publicKeyPem().optional().meta({
      description: "The issuer's public key in PEM",
      unset: "none",
    }),
    algorithms: listOf(
      oneOf(
        "RS256",
        "RS384",
        "RS512",
        "PS256",
        "PS384",
        "PS512",
        "ES256",
        "ES384",
        "ES512",
        "EdDSA",
      ),
    )
      .default(["RS256", "ES256", "EdDSA"])
      .meta({ description: "Accepted signature algorithms" }),
    owner_claim: claimName().default("sub").meta({
      description: "The claim that names the owner; the owner is `jwt:` followed by its value",
    }),
    scope_claim: claimName().optional().meta({
      description:
        "The claim that grants scopes, as words or as a list: `sandkasten:admin`, `sandkasten:use` or `sandkasten:read`; a token that grants none is refused",
      unset: "every token has the scope `use`",
    }),
    clock_skew_seconds: wholeNumber(0, 300).default(30).meta({
      description: "Tolerated difference to the issuer's clock",
    }),
  }).prefault({}),
  events: group({
    retention_seconds: wholeNumber(0, YEAR_SECONDS).default(DAY_SECONDS).meta({
      description: "How long events are stored",
    }),
    max_events_per_key: wholeNumber(100, 10_000_000).default(20_000).meta({
      description:
        "Events that are stored per key; beyond it, the oldest events of that key are deleted",
    }),
    max_events: wholeNumber(1000, 100_000_000).default(200_000).meta({
      description:
        "Events that are stored in total; beyond it, the oldest events of the key with the most events are deleted",
    }),
    max_bytes: bytes(65_536)
      .default(64 * MIB)
      .meta({ description: "Maximum disk space for all events" }),
    max_streams_per_key: wholeNumber(1, 100_000).default(64).meta({
      description: "Open event streams per key",
    }),
    max_streams: wholeNumber(1, 100_000).default(1024).meta({
      description: "The same for all keys together",
    }),
  }).prefault({}),
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
  telemetry: group({
    endpoint: webAddress().optional().meta({
      description:
        "Address of an OpenTelemetry collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`; traces and metrics go there",
      unset: "`OTEL_EXPORTER_OTLP_ENDPOINT` and the other `OTEL_*` variables decide",
    }),
    headers: headerPairs().optional().meta({
      description: "Headers for the collector, as `name=value,name=value`",
      secret: true,
      unset: "`OTEL_EXPORTER_OTLP_HEADERS`, else none",
    }),
    protocol: oneOf("http/protobuf", "http/json").optional().meta({
      description: "Encoding of the data sent to the collector",
      unset: "`OTEL_EXPORTER_OTLP_PROTOCOL`, else `http/protobuf`",
    }),
    service_name: serviceName().optional().meta({
      description: "Name of the daemon in traces and metrics",
      unset: "`OTEL_SERVICE_NAME`, else `sandkasten-daemon`",
    }),
    sample_ratio: anyNumber(0, 1).optional().meta({
      description:
        "Share of the traces that begin in the daemon and are recorded; for traces of callers, the caller decides",
      unset: "`OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`, else 1",
    }),
    metrics_listen: listenAddress().optional().meta({
      description:
        "A second address, `host:port`, that serves only `/metrics`, without a key, for Prometheus",
      unset: "`/metrics` is served by the API alone, for keys of administrators",
    }),
  }).prefault({}),
  log_level: oneOf("trace", "debug", "info", "warn", "error", "fatal", "silent")
    .default("info")
    .meta({ description: "Minimum level of log messages" }),
});

/** All values, merged and validated, under their names in the file. */
export type ConfigValues = z.output<typeof configSchema>;
