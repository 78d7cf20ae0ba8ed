/** Turns a request into a plan for a session, or rejects it with the reason. */
import { createHash } from "node:crypto";
import { SandboxError } from "@sandkasten/protocol";
import type { SandboxLimits, SandboxProfile, SandboxIsolation, Backend } from "../ports/backend.ts";
import type { SecretRequest } from "../network/edge-secrets.ts";
import { certificateVariables } from "../network/trusted-certificates.ts";
import type { SessionNetworks } from "../network/session-networks.ts";
import type { SessionNetwork, WorkspaceMount } from "../ports/session-store.ts";
import { imagesFor } from "./providers.ts";
import type { Provider } from "./providers.ts";
import type { Caller } from "./services/caller.ts";
import type { CreateSessionOptions } from "./services/session-service.ts";
import type { SessionSettings } from "./settings.ts";

export interface SessionPlan {
  readonly requestedImage: string;
  readonly image: string;
  /** The current content of the image; absent if it must still be downloaded. */
  readonly imageDigest: string | undefined;
  readonly profile: SandboxProfile;
  readonly network: SessionNetwork;
  readonly isolation: SandboxIsolation;
  readonly limits: SandboxLimits;
  readonly ttlMs: number;
  readonly env: Readonly<Record<string, string>>;
  /** PEM of the authority with which the gateway stands in for hosts that get secrets. */
  readonly trustedCertificate: string | undefined;
  readonly workspaces: readonly WorkspaceMount[];
  /** It needs nothing special, so a pooled sandbox will do. */
  readonly fromPool: boolean;
  readonly requestHash: string;
}

export async function planSession(
  caller: Caller,
  options: CreateSessionOptions,
  settings: SessionSettings,
  { backend, images, defaultImage }: Provider,
  networks: SessionNetworks,
): Promise<SessionPlan> {
  const asked = options.network ?? "none";
  // SECURITY: against reaching a network: a network needs both the caller's request and the
  // administrator's permission. Guarded by sessions.test.ts and network/plan-network.test.ts.
  const allowed =
    backend.capabilities.network && (asked === true || asked === "full")
      ? "engine"
      : networks.plan(caller.owner, asked);
  const network = await withSecrets(allowed, caller, options.secrets ?? [], networks);
  const profile = options.profile ?? settings.defaultProfile;
  if (profile === "root" && !settings.allowRootProfile)
    throw new SandboxError(
      "PERMISSION_DENIED",
      "the profile `root` is not allowed here; omit `profile`",
    );
  const isolation = planIsolation(options.isolation, backend);
  const limits = planLimits(options.limits ?? {}, settings);
  const requestedImage = options.image ?? defaultImage;
  const { reference, digest } = await imagesFor(caller, images).resolve(requestedImage);
  const env = options.env ?? {};
  return {
    requestedImage,
    image: reference,
    imageDigest: digest,
    profile,
    network,
    isolation,
    limits,
    ttlMs:
      options.ttlMs === undefined || options.ttlMs === 0 ? settings.defaultTtlMs : options.ttlMs,
    env: { ...certificateVariables(network), ...env },
    trustedCertificate: certificateFor(network, caller, networks),
    workspaces: options.workspaces ?? [],
    fromPool:
      network !== "engine" &&
      options.secrets === undefined &&
      isolation === backend.capabilities.isolations[0] &&
      Object.keys(env).length === 0 &&
      options.workspaceId === undefined &&
      (options.workspaces ?? []).length === 0 &&
      Object.keys(options.limits ?? {}).length === 0,
    requestHash: hashOf({
      ...options,
      idempotencyKey: undefined,
      // SECURITY: the hash is stored, and a hash of a weak secret could be guessed. Guarded by
      // secrets-at-rest.test.ts.
      secrets: options.secrets && networks.fingerprint(JSON.stringify(options.secrets)),
    }),
  };
}

async function withSecrets(
  network: SessionNetwork,
  { owner }: Caller,
  requests: readonly SecretRequest[],
  networks: SessionNetworks,
): Promise<SessionNetwork> {
  if (requests.length === 0) return network;
  if (network === "none" || network === "engine")
    throw new SandboxError(
      "INVALID_REQUEST",
      "`secrets` need a network that the gateway enforces; name the hosts in `network.allow`",
    );
  return { ...network, secrets: await networks.seal(owner, network, requests) };
}

function certificateFor(
  network: SessionNetwork,
  { owner }: Caller,
  networks: SessionNetworks,
): string | undefined {
  if (network === "none" || network === "engine" || network.secrets === undefined) return undefined;
  return networks.certificateOf(network.secrets, owner);
}

/** Where only strong isolation is available, a request for less gets strong isolation. */
function planIsolation(
  asked: SandboxIsolation | undefined,
  { capabilities: { isolations } }: Backend,
): SandboxIsolation {
  const [usual] = isolations;
  if (asked === undefined || (asked === "standard" && usual === "strong")) return usual;
  if (isolations.includes(asked)) return asked;
  throw new SandboxError(
    "PERMISSION_DENIED",
    "strong isolation is not available here; omit `isolation`, or ask the administrator to install gVisor (see `sandkasten doctor`)",
  );
}

function planLimits(asked: Partial<SandboxLimits>, settings: SessionSettings): SandboxLimits {
  for (const [name, value] of Object.entries(asked)) {
    const most = settings.maxLimits[name as keyof SandboxLimits];
    if (value <= most) continue;
    const [limit, unit] = LIMIT_NAMES[name as keyof SandboxLimits];
    throw new SandboxError(
      "INVALID_REQUEST",
      `the limit ${limit} may be at most ${most / unit} here, not ${value / unit}`,
      { details: { limit, most: most / unit } },
    );
  }
  const { diskInodes } = settings.defaultLimits;
  // A small disk has no room for the inodes of a large one.
  const fitting =
    asked.diskBytes === undefined
      ? {}
      : { diskInodes: Math.min(diskInodes, Math.floor(asked.diskBytes / BYTES_PER_INODE)) };
  return { ...settings.defaultLimits, ...fitting, ...asked };
}

const BYTES_PER_INODE = 4096;

/** The API's names and units. */
const LIMIT_NAMES: Readonly<Record<keyof SandboxLimits, readonly [string, number]>> = {
  memoryBytes: ["memory_mb", 2 ** 20],
  cpuMillicores: ["cpu_millicores", 1],
  pids: ["pids", 1],
  diskBytes: ["disk_mb", 2 ** 20],
  diskInodes: ["disk_inodes", 1],
};

/** The same for equal requests, independent of field order. */
export function hashOf(request: object): string {
  const ordered = (value: unknown): unknown => {
    if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
    if (Array.isArray(value)) return value.map(ordered);
    if (typeof value !== "object" || value === null) return value;
    return Object.entries(value)
      .filter(([, field]) => field !== undefined)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, field]) => [name, ordered(field)]);
  };
  return createHash("sha256")
    .update(JSON.stringify(ordered(request)))
    .digest("base64url");
}
