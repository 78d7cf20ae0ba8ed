/** Parses image references strictly and gives each image one canonical name. */
import { shortcutTarget } from "./aliases.ts";
import { invalidImage } from "./image-failure.ts";

export const HOST_REFERENCE = "host";

export interface ImageReference {
  /** The only form used as a key and in responses; always has a tag or a digest, except `host`. */
  readonly canonical: string;
  /** Registry and path without tag and digest; docker.io is omitted. */
  readonly repository: string;
  /** `host:port` of the registry; undefined means docker.io. */
  readonly registry: string | undefined;
  readonly tag: string | undefined;
  /** `sha256:…` if the reference is pinned. */
  readonly digest: string | undefined;
  /** The name was a shortcut; `canonical` is what it stands for. */
  readonly shortcut: boolean;
}

const MAX_REFERENCE_CHARS = 512;
const MAX_REPOSITORY_CHARS = 255;
const PATH_COMPONENT = /^[a-z0-9]+(?:(?:\.|__?|-{1,8})[a-z0-9]+)*$/;
const REGISTRY = /^[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?$/;
const TAG = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
const ALLOWED_CHARACTERS = /^[A-Za-z0-9._:/@-]+$/;

/**
 * Parses a user-supplied name, including shortcuts.
 *
 * SECURITY: an invalid name is refused before it reaches a path or a command line (threat: hostile
 * names), and a canonical name is only ever hashed into a file name. Guarded by reference.test.ts.
 */
export function parseReference(name: string): ImageReference {
  if (name.length === 0 || name.length > MAX_REFERENCE_CHARS || !ALLOWED_CHARACTERS.test(name)) {
    throw badName(name);
  }
  const target = shortcutTarget(name);
  if (target !== undefined) return { ...parseReference(target), shortcut: true };
  if (name === HOST_REFERENCE) {
    return {
      canonical: HOST_REFERENCE,
      repository: HOST_REFERENCE,
      registry: undefined,
      tag: undefined,
      digest: undefined,
      shortcut: false,
    };
  }

  const [beforeDigest = "", digest, ...more] = name.split("@");
  if (more.length > 0 || (digest !== undefined && !DIGEST.test(digest))) throw badName(name);

  const lastSlash = beforeDigest.lastIndexOf("/");
  const colon = beforeDigest.indexOf(":", lastSlash + 1);
  const path = colon < 0 ? beforeDigest : beforeDigest.slice(0, colon);
  const givenTag = colon < 0 ? undefined : beforeDigest.slice(colon + 1);
  if (givenTag !== undefined && !TAG.test(givenTag)) throw badName(name);

  const { registry, repository } = splitRegistry(path, name);
  if (repository === HOST_REFERENCE) {
    throw invalidImage(
      `Image "${name}": "host" is this machine's own image and takes no tag or digest. Use "host".`,
    );
  }
  const tag = givenTag ?? (digest === undefined ? "latest" : undefined);
  const canonical =
    repository + (tag === undefined ? "" : `:${tag}`) + (digest === undefined ? "" : `@${digest}`);
  return { canonical, repository, registry, tag, digest, shortcut: false };
}

/**
 * SECURITY: a registry can change what a tag refers to at any time, so a policy may require digests
 * (threat: hostile archives and images). Guarded by registry.test.ts and
 * docker-image-store.test.ts.
 */
export function requireDigest(reference: ImageReference): void {
  if (reference.digest !== undefined) return;
  throw invalidImage(
    `${reference.canonical} cannot be pulled: this daemon only pulls images by digest. Write ${reference.canonical}@sha256:….`,
  );
}

function splitRegistry(
  path: string,
  name: string,
): { registry: string | undefined; repository: string } {
  const components = path.split("/");
  const first = components[0] ?? "";
  const hasRegistry =
    components.length > 1 && (first.includes(".") || first.includes(":") || first === "localhost");
  if (hasRegistry && !REGISTRY.test(first)) throw badName(name);
  const rest = hasRegistry ? components.slice(1) : components;
  if (!rest.every((component) => PATH_COMPONENT.test(component))) throw badName(name);

  const registry =
    hasRegistry && first !== "docker.io" && first !== "index.docker.io"
      ? first.toLowerCase()
      : undefined;
  if (registry === undefined && rest.length > 1 && rest[0] === "library") rest.shift();
  const repository = [...(registry === undefined ? [] : [registry]), ...rest].join("/");
  if (repository.length > MAX_REPOSITORY_CHARS) throw badName(name);
  return { registry, repository };
}

function badName(name: string): Error {
  const shown = name.length > 80 ? `${name.slice(0, 80)}…` : name;
  return invalidImage(
    `${JSON.stringify(shown)} is not a valid image name. Write a shortcut (python), "host", or [registry/]name[:tag][@sha256:digest] in lower case.`,
  );
}
