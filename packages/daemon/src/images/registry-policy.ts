/**
 * Decides which registries images are pulled from, and which addresses a pull may connect to.
 *
 * A registry is allowed by its name, as `host` or `host:port`; `*` allows every registry on the
 * internet. Registries redirect clients for tokens and downloads, to any address on the internet,
 * over TLS. Addresses that are not public are allowed only for registries that the operator listed by
 * name, and addresses of this machine only if that name is the address itself.
 */
import { lookup } from "node:dns/promises";
import type { LookupAddress } from "node:dns";
import { isIP } from "node:net";
import type { SandboxError } from "@sandkasten/protocol";
import { addressKind } from "../network/address-kind.ts";
import { invalidImage } from "./image-failure.ts";
import type { ImageReference } from "./reference.ts";
import { RegistryFailure } from "./registry-failure.ts";

export const DOCKER_HUB = "docker.io";
const ANY = "*";

/** Public registries that most images come from. */
export const DEFAULT_REGISTRIES: readonly string[] = [
  DOCKER_HUB,
  "gcr.io",
  "ghcr.io",
  "mcr.microsoft.com",
  "public.ecr.aws",
  "quay.io",
  "registry.k8s.io",
];

export interface RegistryRules {
  readonly registries: readonly string[];
  /** Also allowed, and accessed without TLS. */
  readonly insecureRegistries: readonly string[];
  /** Resolves names to addresses. */
  readonly resolve?: (hostname: string) => Promise<readonly LookupAddress[]>;
}

export class RegistryPolicy {
  readonly #listed: ReadonlySet<string>;
  readonly #insecure: ReadonlySet<string>;
  readonly #resolve: (hostname: string) => Promise<readonly LookupAddress[]>;

  constructor({ registries, insecureRegistries, resolve }: RegistryRules) {
    this.#insecure = lowerCase(insecureRegistries);
    this.#listed = new Set([...lowerCase(registries), ...this.#insecure]);
    this.#resolve = resolve ?? (async (hostname) => await lookup(hostname, { all: true }));
  }

  /** Rejects with INVALID_IMAGE if the registry is not allowed. */
  requireAllowed({ canonical, registry = DOCKER_HUB }: ImageReference): void {
    if (this.#listed.has(registry) || this.#listed.has(ANY)) return;
    throw this.#refusal(canonical, registry);
  }

  /** Whether a registry, as `host` or `host:port`, is accessed without TLS. */
  isInsecure(registry: string): boolean {
    return this.#insecure.has(registry);
  }

  /**
   * The addresses to connect to for a URL, on behalf of a pull from `registry`. Rejects with a
   * RegistryFailure if a pull must not connect there.
   *
   * SECURITY: the user who names an image, its registry, and the DNS server of the registry's name can
   * all target services inside the network (SSRF; threat: redirects to other hosts). Every URL of a pull
   * passes through here, including redirects and token realms, and the connection uses the checked
   * addresses, so a name cannot resolve differently in between. Guarded by registry-policy.test.ts and
   * registry-targets.test.ts.
   */
  async addressesFor(url: URL, registry: string): Promise<readonly LookupAddress[]> {
    const names = [url.host, `${url.hostname}:${url.port || defaultPort(url)}`];
    const isInsecure = names.some((name) => this.#insecure.has(name));
    if (url.protocol !== "https:" && !(url.protocol === "http:" && isInsecure))
      throw refused(url, "does not use TLS");
    if (url.username !== "" || url.password !== "") throw refused(url, "contains credentials");
    const hostname = url.hostname.replace(/^\[|\]$/g, "");
    const addresses = await this.#addressesOf(url, hostname);
    const kinds = new Set(addresses.map(({ address }) => addressKind(address)));
    const isTrusted = this.#listed.has(registry) && names.some((name) => this.#listed.has(name));
    const isExact = isIP(hostname) !== 0 || hostname === "localhost";
    if (kinds.has("local") && !(isTrusted && isExact))
      throw refused(url, "is an address of this machine or a link-local address");
    if (kinds.has("private") && !isTrusted)
      throw refused(url, "is a private address that is not listed in images.registries");
    return addresses;
  }

  async #addressesOf(url: URL, hostname: string): Promise<readonly LookupAddress[]> {
    const family = isIP(hostname);
    if (family !== 0) return [{ address: hostname, family }];
    const found = await this.#resolve(hostname).catch((cause: unknown) => {
      throw new RegistryFailure("unreachable", `${url.host} is an unknown name`, { cause });
    });
    if (found.length > 0) return found;
    throw new RegistryFailure("unreachable", `${url.host} has no address`);
  }

  #refusal(canonical: string, registry: string): SandboxError {
    const allowed = [...this.#listed].toSorted();
    return invalidImage(
      `${canonical} cannot be pulled: the registry ${registry} is not allowed here. Allowed registries: ${allowed.join(", ") || "none"}.`,
      { details: { allowed_registries: allowed } },
    );
  }
}

function refused(url: URL, why: string): RegistryFailure {
  return new RegistryFailure("unreachable", `${url.protocol}//${url.host} ${why}`);
}

function defaultPort({ protocol }: URL): string {
  return protocol === "http:" ? "80" : "443";
}

function lowerCase(names: readonly string[]): ReadonlySet<string> {
  return new Set(names.map((name) => name.toLowerCase()));
}
