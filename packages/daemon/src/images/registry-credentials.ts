/** Finds the credentials for a registry where `docker login` stores them. */
import { readFile } from "node:fs/promises";
import { SandboxError } from "@sandkasten/protocol";
import { systemCode } from "../system-errors.ts";
import { askCredentialHelper } from "./credential-helper.ts";
import type { CredentialHelperOptions } from "./credential-helper.ts";

/** In the format that an engine accepts. */
export type RegistryCredentials =
  | { readonly username: string; readonly password: string; readonly serveraddress: string }
  | { readonly identitytoken: string; readonly serveraddress: string };

type Fields = Readonly<Record<string, unknown>>;

const DOCKER_HUB = "docker.io";
/** The key that all tools use for docker.io. */
const DOCKER_HUB_URL = "https://index.docker.io/v1/";
const DOCKER_HUB_HOSTS: ReadonlySet<string> = new Set([
  DOCKER_HUB,
  "index.docker.io",
  "registry-1.docker.io",
]);
/** The user name with which a helper marks an identity token. */
const TOKEN_USER = "<token>";

/**
 * The credentials for a registry (`host:port`; undefined is docker.io), or undefined if there are
 * none. The file is read each time, so a login takes effect at once.
 *
 * SECURITY: the file's content never goes into an error, not even as a cause, since a parser quotes
 * the text it fails on (threat: leaked secrets and descriptors). Guarded by registry-credentials.test.ts.
 */
export async function findCredentials(
  file: string,
  registry: string | undefined,
  helpers: CredentialHelperOptions,
): Promise<RegistryCredentials | undefined> {
  const config = await readConfig(file);
  if (config === undefined) return undefined;
  const wanted = hostOf(registry ?? DOCKER_HUB);
  const serveraddress = wanted === DOCKER_HUB ? DOCKER_HUB_URL : wanted;
  const helper = text(entryFor(config["credHelpers"], wanted)) ?? text(config["credsStore"]);
  if (helper !== undefined) {
    const kept = await askCredentialHelper(helper, serveraddress, helpers);
    if (kept === undefined) return undefined;
    const { username, secret } = kept;
    return username === TOKEN_USER
      ? { identitytoken: secret, serveraddress }
      : { username, password: secret, serveraddress };
  }
  const entry = entryFor(config["auths"], wanted);
  return entry === undefined ? undefined : fromEntry(fields(entry), serveraddress);
}

/** The strings that must never be shown. */
export function secretsOf(credentials: RegistryCredentials | undefined): readonly string[] {
  if (credentials === undefined) return [];
  return ["identitytoken" in credentials ? credentials.identitytoken : credentials.password];
}

function fromEntry(entry: Fields, serveraddress: string): RegistryCredentials | undefined {
  const identitytoken = text(entry["identitytoken"]);
  if (identitytoken !== undefined) return { identitytoken, serveraddress };
  const encoded = text(entry["auth"]);
  if (encoded === undefined) {
    const username = text(entry["username"]);
    const password = text(entry["password"]);
    return username === undefined || password === undefined
      ? undefined
      : { username, password, serveraddress };
  }
  const decoded = Buffer.from(encoded, "base64").toString("utf8");
  const colon = decoded.indexOf(":");
  if (colon < 1)
    throw configFailure(`the credentials for ${serveraddress} are not "user:password" in base64`);
  // Docker sometimes padded these with zeros.
  const password = decoded.slice(colon + 1).replace(/\0+$/, "");
  return { username: decoded.slice(0, colon), password, serveraddress };
}

/** The entry of a registry, whether or not its key has a scheme and path. */
function entryFor(table: unknown, wanted: string): unknown {
  return Object.entries(fields(table)).find(([key]) => hostOf(key) === wanted)?.[1];
}

function hostOf(registry: string): string {
  const host = registry.replace(/^https?:\/\//, "").split("/")[0] ?? "";
  return DOCKER_HUB_HOSTS.has(host) ? DOCKER_HUB : host.toLowerCase();
}

async function readConfig(path: string): Promise<Fields | undefined> {
  let content: string;
  try {
    content = await readFile(path, "utf8");
  } catch (cause) {
    if (systemCode(cause) === "ENOENT") return undefined;
    throw configFailure(`it cannot be read (${systemCode(cause) ?? "unknown reason"})`);
  }
  try {
    return fields(JSON.parse(content));
  } catch {
    throw configFailure("it is not JSON");
  }
}

function configFailure(what: string): SandboxError {
  return new SandboxError(
    "INTERNAL_ERROR",
    `The registry credentials file cannot be used: ${what}. Repair it, or log in again with docker login.`,
  );
}

function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
