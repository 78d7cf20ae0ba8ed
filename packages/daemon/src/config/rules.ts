/** Rules between keys: each value is valid on its own, but not in combination. */
import { ImageAllowlist } from "../images/allowlist.ts";
import { HOST_REFERENCE, parseReference } from "../images/reference.ts";
import { FULL, looksLikePreset } from "../network/plan-network.ts";
import { mostInodes } from "../ports/disk-inodes.ts";
import { DEFAULT_OWNER } from "./config.ts";
import { exposureProblem, parseListenAddress } from "./listen-address.ts";
import type { ConfigValues } from "./schema.ts";
import type { Source } from "./settings.ts";

export interface Verdict {
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

interface Rule {
  /** The keys it checks; skipped if one of them is already faulty. */
  readonly keys: readonly (keyof ConfigValues)[];
  readonly judge: (values: ConfigValues, sourceOf: SourceOf) => Partial<Verdict>;
}

/** The source of a key's value, by name. */
export type SourceOf = (key: string) => Source;

const RULES: readonly Rule[] = [
  { keys: ["listen", "api_key", "api_keys"], judge: judgeListen },
  { keys: ["api_key", "api_keys"], judge: judgeKeys },
  { keys: ["defaults", "max_limits"], judge: judgeLimits },
  { keys: ["defaults"], judge: judgeInodes("defaults") },
  { keys: ["workspace"], judge: judgeInodes("workspace") },
  { keys: ["defaults", "allow_root_profile", "pool"], judge: judgeProfiles },
  { keys: ["pool", "allowed_images"], judge: judgePool },
  { keys: ["default_image", "allowed_images"], judge: judgeDefaultImage },
  { keys: ["network", "api_keys"], judge: judgeNetwork },
  { keys: ["cluster", "database_url"], judge: judgeCluster },
  { keys: ["jwt"], judge: judgeTokens },
  { keys: ["api_keys"], judge: judgeScopes },
];

/** `isFaulty` returns whether a key or group is already known to be faulty. */
export function judge(
  values: ConfigValues,
  sourceOf: SourceOf,
  isFaulty: (key: string) => boolean,
): Verdict {
  const verdicts = RULES.filter(({ keys }) => !keys.some(isFaulty)).map((rule) =>
    rule.judge(values, sourceOf),
  );
  return {
    problems: verdicts.flatMap(({ problems = [] }) => problems),
    warnings: verdicts.flatMap(({ warnings = [] }) => warnings),
  };
}

/** A key with its source, as in `listen (SANDKASTEN_LISTEN)`. */
function named(key: string, sourceOf: SourceOf): string {
  const { kind, name } = sourceOf(key);
  return kind === "default" ? `${key} (by default)` : `${key} (${name})`;
}

/** SECURITY: a half-configured issuer could accept no token, or anyone's. Guarded by load-config.test.ts. */
function judgeTokens({ jwt }: ConfigValues): Partial<Verdict> {
  const sources = [jwt.jwks_file, jwt.jwks_uri, jwt.public_key].filter((one) => one !== undefined);
  if (jwt.issuer === undefined && jwt.audience === undefined && sources.length === 0) return {};
  if (jwt.issuer === undefined || jwt.audience === undefined)
    return { problems: ["jwt needs both jwt.issuer and jwt.audience"] };
  if (sources.length === 1 && jwt.algorithms.length > 0) return {};
  return {
    problems: [
      jwt.algorithms.length === 0
        ? "jwt.algorithms is empty, so no token would be accepted"
        : "jwt needs exactly one of jwt.jwks_file, jwt.jwks_uri and jwt.public_key",
    ],
  };
}

function judgeScopes({ api_keys }: ConfigValues): Partial<Verdict> {
  const torn = api_keys.filter(
    ({ admin, scope }) => scope !== undefined && admin === true && scope !== "admin",
  );
  return {
    problems: torn.map(
      ({ name, scope }) =>
        `the key ${name} in api_keys has admin: true and scope: ${scope}; give one`,
    ),
  };
}

function judgeListen(values: ConfigValues, sourceOf: SourceOf): Partial<Verdict> {
  const { listen, api_key, api_keys } = values;
  const address = parseListenAddress(listen);
  const keys = [...(api_key === undefined ? [] : [api_key]), ...api_keys];
  const problem = address === undefined ? undefined : exposureProblem(address, keys);
  if (problem === undefined) return {};
  return { problems: [`${named("listen", sourceOf)} is "${listen}", which ${problem}`] };
}

/** The key in examples, which people copy. */
const PLACEHOLDER = "sk-sandbox-...";

function judgeKeys({ api_key, api_keys }: ConfigValues, sourceOf: SourceOf): Partial<Verdict> {
  const where = named("api_keys", sourceOf);
  const problems: string[] = [];
  const names = new Set(api_key === undefined ? [] : [DEFAULT_OWNER]);
  const keys = new Set(api_key === undefined ? [] : [api_key]);
  for (const { name, key } of api_keys) {
    if (names.has(name)) {
      const note = name === DEFAULT_OWNER ? " (which is the name of api_key's owner)" : "";
      problems.push(`${where} uses the name "${name}"${note} again; each key needs its own`);
    }
    if (keys.has(key)) problems.push(`${where} gives "${name}" the same key as another name`);
    names.add(name);
    keys.add(key);
  }
  const holder = named(api_key === PLACEHOLDER ? "api_key" : "api_keys", sourceOf);
  const warnings = keys.has(PLACEHOLDER)
    ? [`${holder} contains the key from the examples, which is public; choose another`]
    : [];
  return { problems, warnings };
}

function judgeLimits(values: ConfigValues, sourceOf: SourceOf): Partial<Verdict> {
  const { defaults, max_limits } = values;
  const limits = Object.keys(max_limits) as (keyof ConfigValues["max_limits"])[];
  const problems = limits
    .filter((limit) => defaults[limit] > max_limits[limit])
    .map((limit) => {
      const [given, most] = [`defaults.${limit}`, `max_limits.${limit}`];
      return `${named(given, sourceOf)} is ${defaults[limit]}, more than the ${max_limits[limit]} of ${named(most, sourceOf)}; lower the one or raise the other`;
    });
  return { problems };
}

const MIB = 2 ** 20;

/** A disk that cannot hold its own inode tables can never be created. */
function judgeInodes(group: "defaults" | "workspace"): Rule["judge"] {
  return (values, sourceOf) => {
    const { disk_limit_mb: disk, disk_inodes: inodes } = values[group];
    const most = mostInodes(disk * MIB);
    if (inodes <= most) return {};
    const [files, size] = [`${group}.disk_inodes`, `${group}.disk_limit_mb`];
    const enough = Math.ceil(inodes / mostInodes(MIB));
    return {
      problems: [
        `${named(files, sourceOf)} is ${inodes}, but a disk of the ${disk} MiB of ${named(size, sourceOf)} has room for ${most}; lower the one to ${most} or raise the other to ${enough}`,
      ],
    };
  };
}

function judgeProfiles(values: ConfigValues, sourceOf: SourceOf): Partial<Verdict> {
  const { allow_root_profile, defaults, pool = [] } = values;
  if (allow_root_profile) return {};
  const forbidden = `but ${named("allow_root_profile", sourceOf)} is false`;
  const rootfs = named("defaults.readonly_rootfs", sourceOf);
  const problems = pool
    .filter(({ profile }) => profile === "root")
    .map(({ image }) => `${named("pool", sourceOf)} has "${image}" as root, ${forbidden}`);
  if (!defaults.readonly_rootfs) {
    problems.push(`${rootfs} is false, which makes root the default profile, ${forbidden}`);
  }
  return { problems };
}

function judgePool(values: ConfigValues, sourceOf: SourceOf): Partial<Verdict> {
  const { allowed_images } = values;
  const pool = (values.pool ?? []).filter(({ size }) => size > 0);
  const where = named("pool", sourceOf);
  const allowlist = new ImageAllowlist(allowed_images);
  const problems = pool
    .filter(({ image }) => !mayBeAllowed(allowlist, image))
    .map(({ image }) => `${where} has "${image}", ${notAllowed(allowlist, sourceOf)}`);
  for (const [at, { image, profile, network = false }] of pool.entries()) {
    const first = pool.findIndex(
      (other) =>
        other.image === image && other.profile === profile && (other.network ?? false) === network,
    );
    if (first < at) problems.push(`${where} has "${image}" again; add up the sizes`);
  }
  return { problems };
}

/** The built-in default image was not an explicit choice, so a list without it is not a contradiction. */
function judgeDefaultImage(values: ConfigValues, sourceOf: SourceOf): Partial<Verdict> {
  const { default_image = HOST_REFERENCE, allowed_images } = values;
  const allowlist = new ImageAllowlist(allowed_images);
  if (mayBeAllowed(allowlist, default_image)) return {};
  const fault = `${named("default_image", sourceOf)} is "${default_image}", ${notAllowed(allowlist, sourceOf)}`;
  return sourceOf("default_image").kind === "default"
    ? { warnings: [`${fault}; sessions that name no image will be refused`] }
    : { problems: [`${fault}; add it there or choose another`] };
}

/** Every preset name must be defined, and only once. */
function judgeNetwork({ network, api_keys }: ConfigValues, sourceOf: SourceOf): Partial<Verdict> {
  const names = new Set(network.presets.map(({ name }) => name));
  const problems: string[] = [];
  if (names.size < network.presets.length)
    problems.push(`${named("network.presets", sourceOf)} has a name twice; each needs its own`);
  const check = (key: string, texts: readonly string[], known: ReadonlySet<string>): void => {
    for (const text of texts)
      if (looksLikePreset(text) && text !== FULL && !known.has(text))
        problems.push(
          `${key} has "${text}", which is not ${known.size < names.size ? "a rule" : "a preset"}; define it in network.presets, or name a host with its port, as in ${text}:443`,
        );
  };
  check(named("network.allow", sourceOf), network.allow, names);
  check(named("network.default", sourceOf), network.default ?? [], names);
  for (const { network_allow = [] } of api_keys)
    check(named("api_keys", sourceOf), network_allow, names);
  for (const { allow } of network.presets)
    check(named("network.presets", sourceOf), allow, new Set());
  return { problems };
}

/**
 * SECURITY: without a secret, anyone who reaches the address could impersonate another daemon.
 * Guarded by load-config.test.ts.
 */
function judgeCluster(values: ConfigValues, sourceOf: SourceOf): Partial<Verdict> {
  const { cluster, database_url } = values;
  const address = named("cluster.address", sourceOf);
  if (cluster.address === undefined) return {};
  if (cluster.secret === undefined)
    return {
      problems: [`${address} needs cluster.secret, which daemons use to authenticate each other`],
    };
  if (database_url !== undefined) return {};
  return {
    problems: [
      `${address} needs database_url: only daemons that share a database forward requests`,
    ],
  };
}

function notAllowed(allowlist: ImageAllowlist, sourceOf: SourceOf): string {
  return `which is not among ${named("allowed_images", sourceOf)}: ${allowlist.describe()}`;
}

/** Decides as the image store does, and allows what depends on the store's content. */
function mayBeAllowed(allowlist: ImageAllowlist, image: string): boolean {
  const { canonical, digest, shortcut } = parseReference(image);
  return (
    allowlist.allows(canonical) ||
    digest !== undefined ||
    (shortcut && allowlist.allows(HOST_REFERENCE))
  );
}
