/** The configuration as the daemon's parts use it: in their units, complete and frozen. */
import { isAbsolute, join, resolve } from "node:path";
import type { FeedLimits } from "../events/feed.ts";
import type { TelemetrySettings } from "@sandkasten/telemetry";
import type { ImagePolicy } from "../images/local-image-store.ts";
import type { SandboxLimits, SandboxProfile } from "../ports/backend.ts";
import type { EventRetention } from "../ports/event-log.ts";
import type { TokenOptions } from "../keys/tokens.ts";
import type { KeyScope } from "../ports/key-store.ts";
import type { StoredSecret } from "../network/edge-secrets.ts";
import { resolveRules } from "../network/plan-network.ts";
import type { NetworkTerms } from "../network/plan-network.ts";
import type { Rule } from "../network/rules.ts";
import { parseListenAddress } from "./listen-address.ts";
import type { ListenAddress } from "./listen-address.ts";
import type { ConfigValues } from "./schema.ts";
import type { Source } from "./settings.ts";

/** A key and its owner's quotas. */
export interface ApiKey {
  /** The owner's name. */
  readonly name: string;
  readonly key: string;
  /** An administrator's imported and pulled images are shared with all keys. */
  readonly scope: KeyScope;
  readonly maxSessions: number;
  readonly maxRunningExecs: number;
  readonly maxWorkspaces: number;
  readonly maxImageBytes: number;
  /** The most that its sessions can reach; when absent, everything that the administrator allows. */
  readonly networkCeiling?: readonly Rule[];
}

/** A value under its name in the file, for display; secrets are `***`. */
export interface ShownSetting {
  readonly key: string;
  readonly value: unknown;
  readonly source: Source;
}

export interface DockerConfig {
  readonly host: string;
  readonly certPath?: string;
  readonly configDir: string;
  readonly pullPolicy: ConfigValues["docker"]["pull_policy"];
  readonly workspace: {
    readonly strategy: ConfigValues["docker"]["workspace"];
    readonly dir: string;
    readonly sharedVolume: string;
    readonly sharedDir: string;
  };
  readonly network?: string;
  readonly runtime?: string;
}

export interface Config {
  readonly listen: ListenAddress;
  /** All configured keys, that of `api_key` first; empty if the daemon generates one. */
  readonly apiKeys: readonly ApiKey[];
  /** Absolute. */
  readonly dataDir: string;
  /** Absolute. */
  readonly dbPath: string;
  /** A Postgres database to use instead of `dbPath`. */
  readonly databaseUrl?: string;
  /** How daemons that share the database reach each other. */
  readonly cluster: { readonly address?: string; readonly secret?: string };
  /** The agent service whose runs the dashboard shows, if any. */
  readonly agentService?: { readonly url: string; readonly apiKey?: string };
  /** Each backend has its own default when absent. */
  readonly defaultImage?: string;
  readonly images: ImagePolicy;
  /** For sessions that do not choose one. */
  readonly backend: ConfigValues["backend"];
  /** Other backends that sessions may choose. */
  readonly backends: ConfigValues["backends"];
  readonly docker: DockerConfig;
  readonly network: NetworkTerms & {
    readonly nameServers?: readonly string[];
    /** PEM certificates. */
    readonly caFile?: string;
    readonly secrets: readonly StoredSecret[];
    /** Per session. */
    readonly limits: {
      readonly maxConnections: number;
      readonly maxConnectionsPerSecond: number;
      /** 0 for no limit. */
      readonly maxTotalBytes: number;
      /** 0 for no limit. */
      readonly maxBytesPerSecond: number;
    };
  };
  readonly runtime: ConfigValues["runtime"];
  /** Absolute. */
  readonly runtimeDir?: string;
  readonly sessionTtlMs: number;
  readonly maxSessionLifetimeMs: number;
  readonly defaults: {
    readonly limits: SandboxLimits;
    readonly maxExecTimeoutMs: number;
    readonly profile: SandboxProfile;
    readonly networkMode: string;
  };
  /** The most that a request may set. */
  readonly maxLimits: SandboxLimits;
  readonly allowRootProfile: boolean;
  /** Whether sessions may request a separate kernel. */
  readonly allowStrongIsolation: boolean;
  /** Undefined if not configured: the pool is then a small one of the default image. */
  readonly pool:
    | readonly {
        readonly image: string;
        readonly size: number;
        readonly profile: SandboxProfile;
        readonly network?: boolean;
      }[]
    | undefined;
  /** For each key without its own quotas. */
  readonly quotas: {
    readonly maxSessions: number;
    readonly maxRunningExecs: number;
    readonly maxWorkspaces: number;
    readonly maxImageBytes: number;
  };
  readonly shutdown: ConfigValues["shutdown"];
  readonly workspace: { readonly diskBytes: number; readonly diskInodes: number };
  readonly journal: {
    readonly maxBytesPerExec: number;
    readonly maxBytesPerSession: number;
    readonly maxBytesPerKey: number;
    readonly maxBytes: number;
    readonly retentionMs: number;
  };
  /** Tokens that are accepted in place of keys. */
  readonly jwt?: Omit<TokenOptions, "keys"> & {
    readonly source: { readonly [Kind in "file" | "url" | "pem"]?: string };
  };
  readonly events: {
    readonly retention: EventRetention;
    readonly limits: FeedLimits;
  };
  readonly http: {
    readonly maxBodyBytes: number;
    readonly maxUploadBytes: number;
    readonly allowedHosts: readonly string[];
    readonly allowedOrigins: readonly string[];
  };
  readonly preview: {
    /** `host` or `host:port`; previews have names below it. */
    readonly domain?: string;
    readonly scheme: ConfigValues["preview"]["scheme"];
    readonly maxSeconds: number;
    readonly maxConnections: number;
  };
  readonly outputBudgetBytes: number;
  readonly logLevel: ConfigValues["log_level"];
  readonly telemetry: {
    /** Absent if nothing is sent to a collector. */
    readonly otlp?: TelemetrySettings;
    /** Where `/metrics` is served without a key. */
    readonly metricsListen?: ListenAddress;
  };
  /** The file that was read, if any. */
  readonly file?: string;
  /** Warnings for the operator; log each. */
  readonly warnings: readonly string[];
  /** Every key with its value and source. */
  readonly settings: readonly ShownSetting[];
}

/** The owner of `api_key`, and of the generated key. */
export const DEFAULT_OWNER = "default";
const MIB = 2 ** 20;

/** `dataDir` is already absolute. */
export function shapeConfig(
  values: ConfigValues,
  dataDir: string,
  homeDir: string,
): Omit<Config, "file" | "warnings" | "settings" | "telemetry"> {
  const { defaults, quotas, workspace, journal, events, http, preview } = values;
  const profile = defaults.readonly_rootfs ? "restricted" : "root";
  return {
    listen: parseListenAddress(values.listen) ?? unchecked("listen"),
    apiKeys: apiKeysOf(values),
    dataDir,
    dbPath: isAbsolute(values.db_path) ? resolve(values.db_path) : join(dataDir, values.db_path),
    ...(values.database_url !== undefined && { databaseUrl: values.database_url }),
    cluster: {
      ...(values.cluster.address !== undefined && { address: values.cluster.address }),
      ...(values.cluster.secret !== undefined && { secret: values.cluster.secret }),
    },
    ...(values.dashboard.agents_url !== undefined && {
      agentService: {
        url: values.dashboard.agents_url,
        ...(values.dashboard.agents_api_key !== undefined && {
          apiKey: values.dashboard.agents_api_key,
        }),
      },
    }),
    ...(values.default_image !== undefined && { defaultImage: values.default_image }),
    images: imagePolicy(values),
    backend: values.backend,
    backends: values.backends,
    docker: dockerOf(values, homeDir),
    network: networkOf(values),
    runtime: values.runtime,
    ...(values.runtime_dir !== undefined && { runtimeDir: values.runtime_dir }),
    sessionTtlMs: values.session_ttl_seconds * 1000,
    maxSessionLifetimeMs: values.max_session_lifetime_seconds * 1000,
    defaults: {
      limits: limitsOf(defaults),
      maxExecTimeoutMs: defaults.max_exec_timeout_ms,
      profile,
      networkMode: defaults.network_mode,
    },
    maxLimits: limitsOf(values.max_limits),
    allowRootProfile: values.allow_root_profile,
    allowStrongIsolation: values.allow_strong_isolation,
    pool: values.pool
      ?.filter(({ size }) => size > 0)
      .map(({ network: hasNetwork = false, ...entry }) => ({
        ...entry,
        profile: entry.profile ?? profile,
        ...(hasNetwork && { network: true }),
      })),
    quotas: {
      maxSessions: quotas.max_sessions,
      maxRunningExecs: quotas.max_running_execs,
      maxWorkspaces: quotas.max_workspaces,
      maxImageBytes: quotas.max_image_bytes,
    },
    shutdown: values.shutdown,
    workspace: {
      diskBytes: workspace.disk_limit_mb * MIB,
      diskInodes: workspace.disk_inodes,
    },
    journal: {
      maxBytesPerExec: journal.max_bytes_per_exec,
      maxBytesPerSession: journal.max_bytes_per_session,
      maxBytesPerKey: journal.max_bytes_per_key,
      maxBytes: journal.max_bytes,
      retentionMs: journal.retention_seconds * 1000,
    },
    ...tokensOf(values),
    events: {
      retention: {
        maxAgeMs: events.retention_seconds * 1000,
        maxEventsPerOwner: events.max_events_per_key,
        maxEvents: events.max_events,
        maxBytes: events.max_bytes,
      },
      limits: {
        maxFollowers: events.max_streams,
        maxFollowersPerOwner: events.max_streams_per_key,
      },
    },
    http: {
      maxBodyBytes: http.max_body_bytes,
      maxUploadBytes: http.max_upload_bytes,
      allowedHosts: http.allowed_hosts,
      allowedOrigins: http.allowed_origins,
    },
    preview: {
      ...(preview.domain !== undefined && { domain: preview.domain.toLowerCase() }),
      scheme: preview.scheme,
      maxSeconds: preview.max_seconds,
      maxConnections: preview.max_connections,
    },
    outputBudgetBytes: values.output_budget_bytes,
    logLevel: values.log_level,
  };
}

function tokensOf({ jwt }: ConfigValues): Pick<Config, "jwt"> {
  const { issuer, audience } = jwt;
  if (issuer === undefined || audience === undefined) return {};
  return {
    jwt: {
      issuer,
      audience,
      algorithms: jwt.algorithms,
      ownerClaim: jwt.owner_claim,
      clockSkewSeconds: jwt.clock_skew_seconds,
      ...(jwt.scope_claim !== undefined && { scopeClaim: jwt.scope_claim }),
      source: {
        ...(jwt.jwks_file !== undefined && { file: jwt.jwks_file }),
        ...(jwt.jwks_uri !== undefined && { url: jwt.jwks_uri }),
        ...(jwt.public_key !== undefined && { pem: jwt.public_key }),
      },
    },
  };
}

/** A preset consists of rules and `full` only. */
function presetsOf({ network }: ConfigValues): NetworkTerms["presets"] {
  return new Map(network.presets.map(({ name, allow }) => [name, resolveRules(allow, new Map())]));
}

function networkOf(values: ConfigValues): Config["network"] {
  const { network } = values;
  const presets = presetsOf(values);
  return {
    presets,
    ceiling: resolveRules(network.allow, presets),
    ...(network.default !== undefined && { default: resolveRules(network.default, presets) }),
    ...(network.name_servers !== undefined && { nameServers: network.name_servers }),
    ...(network.ca_file !== undefined && { caFile: network.ca_file }),
    secrets: network.secrets.map(({ keys, ...secret }) => ({
      ...secret,
      ...(keys !== undefined && { keys }),
    })),
    limits: {
      maxConnections: network.max_connections,
      maxConnectionsPerSecond: network.max_connections_per_second,
      maxTotalBytes: network.max_total_bytes,
      maxBytesPerSecond: network.max_bytes_per_second,
    },
  };
}

function apiKeysOf(values: ConfigValues): ApiKey[] {
  const { api_key, api_keys, quotas } = values;
  const first = api_key === undefined ? [] : [{ name: DEFAULT_OWNER, key: api_key, admin: true }];
  const all: ConfigValues["api_keys"] = [...first, ...api_keys];
  return all.map(
    ({
      name,
      key,
      admin = false,
      scope,
      max_sessions,
      max_running_execs,
      max_image_bytes,
      network_allow,
    }) => ({
      name,
      key,
      scope: scope ?? (admin ? "admin" : "use"),
      maxSessions: max_sessions ?? quotas.max_sessions,
      maxRunningExecs: max_running_execs ?? quotas.max_running_execs,
      maxWorkspaces: quotas.max_workspaces,
      maxImageBytes: max_image_bytes ?? quotas.max_image_bytes,
      ...(network_allow !== undefined && {
        networkCeiling: resolveRules(network_allow, presetsOf(values)),
      }),
    }),
  );
}

function dockerOf({ docker }: ConfigValues, homeDir: string): DockerConfig {
  return {
    host: docker.host,
    ...(docker.cert_path !== undefined && { certPath: docker.cert_path }),
    configDir: docker.config_dir ?? join(homeDir, ".docker"),
    pullPolicy: docker.pull_policy,
    workspace: {
      strategy: docker.workspace,
      dir: docker.workspace_dir,
      sharedVolume: docker.shared_volume,
      sharedDir: docker.shared_dir,
    },
    ...(docker.network !== undefined && { network: docker.network }),
    ...(docker.runtime !== undefined && { runtime: docker.runtime }),
  };
}

function imagePolicy({ allowed_images, images }: ConfigValues): ImagePolicy {
  return {
    allowedImages: allowed_images,
    registries: images.registries,
    insecureRegistries: images.insecure_registries,
    ...(images.credentials_file !== undefined && { credentialsFile: images.credentials_file }),
    requireDigests: images.require_digests,
    maxTotalBytes: images.max_total_bytes,
    pullTimeoutMs: images.pull_timeout_seconds * 1000,
    limits: {
      totalBytes: images.max_unpacked_bytes,
      archiveBytes: images.max_archive_bytes,
      fileBytes: images.max_file_bytes,
      entries: images.max_entries,
      layers: images.max_layers,
      compressionRatio: images.max_compression_ratio,
    },
  };
}

function limitsOf(limits: ConfigValues["max_limits"]): SandboxLimits {
  return {
    memoryBytes: limits.mem_limit_mb * MIB,
    cpuMillicores: Math.round(limits.cpu_limit * 1000),
    pids: limits.pids_limit,
    diskBytes: limits.disk_limit_mb * MIB,
    diskInodes: limits.disk_inodes,
  };
}

function unchecked(key: string): never {
  throw new TypeError(`${key} was used without having been checked`);
}
