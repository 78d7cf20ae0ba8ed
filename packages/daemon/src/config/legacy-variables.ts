/** Variables of older programs that map to a key of ours. */
import { VARIABLE_PREFIX } from "./keys.ts";
import type { ConfigKey } from "./keys.ts";
import type { Layer, Setting } from "./settings.ts";
import { valueFromText } from "./values-from-text.ts";

export interface LegacyVariable {
  /** The first one that is set counts. */
  readonly names: readonly string[];
  /** Name of the key that it sets. */
  readonly key: string;
  readonly note: string;
  /** Converts its text to that of the key. */
  readonly translate?: (text: string) => string;
}

/** Both prefixes of a variable. */
const station = (name: string): readonly string[] => [
  `STATION_SANDBOX_${name}`,
  `STN_SANDBOX_${name}`,
];

/** A variable of the older Sandkasten, whose names had no group. */
const older = (name: string): LegacyVariable => ({
  names: [`${VARIABLE_PREFIX}${name.toUpperCase()}`],
  key: `defaults.${name}`,
  note: "name in the older Sandkasten",
});

export const LEGACY_VARIABLES: readonly LegacyVariable[] = [
  older("cpu_limit"),
  older("mem_limit_mb"),
  older("pids_limit"),
  older("max_exec_timeout_ms"),
  older("network_mode"),
  older("readonly_rootfs"),
  {
    names: ["SANDBOX_SESSION_IDLE_TIMEOUT"],
    key: "session_ttl_seconds",
    note: "a duration such as `30m`",
  },
  {
    names: ["SANDBOX_SESSION_MAX_LIFETIME"],
    key: "max_session_lifetime_seconds",
    note: "a duration such as `4h`",
  },
  { names: station("ALLOWED_IMAGES"), key: "allowed_images", note: "a list with commas" },
  { names: station("DIR"), key: "docker.workspace_dir", note: "a path" },
  {
    names: ["DOCKER_HOST", "DAGGER_HOST"],
    key: "docker.host",
    note: "as Docker's own programs read it",
  },
  { names: ["DOCKER_CONFIG"], key: "docker.config_dir", note: "as Docker's own programs read it" },
  {
    names: ["DOCKER_CERT_PATH"],
    key: "docker.cert_path",
    note: "as Docker's own programs read it; `DOCKER_TLS_VERIFY` is ignored, since certificates are always verified",
  },
  {
    names: station("DEFAULT_TIMEOUT_SECONDS"),
    key: "defaults.max_exec_timeout_ms",
    note: "in seconds",
    translate: (text) => (/^\d+(?:\.\d+)?$/.test(text.trim()) ? `${text.trim()}s` : text),
  },
  {
    names: station("MAX_STDOUT_BYTES"),
    key: "output_budget_bytes",
    note: "the larger of this and the next",
  },
  {
    names: station("MAX_STDERR_BYTES"),
    key: "output_budget_bytes",
    note: "the larger of this and the one before",
  },
  {
    names: station("ALLOW_NETWORK_DEFAULT"),
    key: "defaults.network_mode",
    note: "`false` is `none`; `true` is refused, since every request must ask for a network itself",
    translate: (text) => (/^(?:false|no|off|0)$/i.test(text.trim()) ? "none" : text),
  },
  {
    names: station("ENGINE_MODE"),
    key: "backend",
    note: "`docker_socket`, `sidecar` and `remote` all are `docker`; `docker.host` says where",
    translate: (text) => (/^(?:docker_socket|sidecar|remote)$/.test(text) ? "docker" : text),
  },
];

type Environment = Readonly<Record<string, string | undefined>>;

/** Settings from older variables, for keys that are not set by a current one. */
export function legacySettings(
  env: Environment,
  keys: readonly ConfigKey[],
  isSet: (key: ConfigKey) => boolean,
): Layer {
  const found = new Map<string, Setting>();
  const warnings: string[] = [];
  for (const { names, key: keyName, translate } of LEGACY_VARIABLES) {
    const key = keys.find(({ name }) => name === keyName);
    const variable = names.find((name) => (env[name] ?? "") !== "");
    if (key === undefined || variable === undefined) continue;
    if (variable.startsWith(VARIABLE_PREFIX))
      warnings.push(
        isSet(key)
          ? `${variable} is ignored because ${key.variable}, its new name, is set; remove it`
          : `${variable} is now called ${key.variable}; rename it`,
      );
    if (isSet(key)) continue;
    const written = env[variable] ?? "";
    const text = translate === undefined ? written : translate(written);
    const value = valueFromText(key, text);
    const before = found.get(keyName)?.value;
    if (typeof before === "number" && typeof value === "number" && before >= value) continue;
    found.set(keyName, { key, value, written, source: { kind: "env", name: variable } });
  }
  return { settings: [...found.values()], problems: [], warnings };
}

export function isLegacyVariable(name: string): boolean {
  return LEGACY_VARIABLES.some(({ names }) => names.includes(name));
}
