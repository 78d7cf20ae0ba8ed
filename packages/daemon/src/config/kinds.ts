/** The value types of configuration keys, each with a message that says what it allows. */
import { isIP } from "node:net";
import { isAbsolute } from "node:path";
import { z } from "zod";
import { ImageAllowlist } from "../images/allowlist.ts";
import { parseReference } from "../images/reference.ts";
import { normalizeHostName } from "../network/host-names.ts";
import { FULL, looksLikePreset } from "../network/plan-network.ts";
import { parseRule, RULE_FORM } from "../network/rules.ts";
import { LISTEN_FORM, parseListenAddress } from "./listen-address.ts";

export function wholeNumber(least: number, most: number) {
  const error = `must be an integer from ${least} to ${most}`;
  return z.int({ error }).min(least, { error }).max(most, { error });
}

export function anyNumber(least: number, most: number) {
  const error = `must be a number from ${least} to ${most}`;
  return z.number({ error }).min(least, { error }).max(most, { error });
}

export function oneOf<const Values extends readonly [string, ...string[]]>(...values: Values) {
  return z.enum(values, {
    error: values.length === 1 ? `must be ${values[0]}` : `must be one of ${values.join(", ")}`,
  });
}

export const yesOrNo = () => z.boolean({ error: "must be true or false" });

export function text(error: string, fits: (value: string) => boolean) {
  return z.string({ error }).refine(fits, { error });
}

export function listOf<Element extends z.ZodType>(element: Element) {
  return z.array(element, { error: "must be a list" });
}

/** An element of a list; its fields have their own messages. */
export function mapping<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.strictObject(shape, {
    error: `must be a mapping with ${Object.keys(shape).join(", ")}`,
  });
}

export const listenAddress = () =>
  text(LISTEN_FORM, (value) => parseListenAddress(value) !== undefined);

export const path = () =>
  text("must be a path", (value) => value.length > 0 && !value.includes("\0"));

export const absolutePath = () =>
  text("must be an absolute path", (value) => isAbsolute(value) && !value.includes("\0"));

export const databaseUrl = () =>
  text("must be postgresql://user:password@host:port/database", (value) =>
    /^postgres(?:ql)?:\/\/\S+$/.test(value),
  );

/** Another daemon's origin, without a path, since the request's path is appended. */
export const daemonAddress = () =>
  text("must be http://host:port", (value) => {
    const url = URL.parse(value);
    return url !== null && url.protocol === "http:" && url.origin === value;
  });

export const engineAddress = () =>
  text("must be unix:///path, tcp://host:port or ssh://user@host", (value) =>
    /^(?:unix:\/\/\/.+|tcp:\/\/[^/\s]+:\d{1,5}|ssh:\/\/[^/\s]+)$/.test(value),
  );

export const plainWords = () =>
  text("must be 1 to 512 visible characters", (value) => /^[\x21-\x7e]{1,512}$/.test(value));

export const claimName = () =>
  text("must be the name of a claim", (value) => /^[\x21-\x7e]{1,128}$/.test(value));

/**
 * SECURITY: keys fetched over an unprotected network could be an attacker's. Guarded by
 * load-config.test.ts.
 */
export const keySetUrl = () =>
  text("must be an https:// URL, or http:// of this machine", (value) => {
    const url = URL.parse(value);
    if (url === null || url.username !== "" || url.password !== "") return false;
    const isLocal = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(url.hostname);
    return url.protocol === "https:" || (url.protocol === "http:" && isLocal);
  });

export const publicKeyPem = () =>
  text("must be a public key in PEM, from BEGIN PUBLIC KEY on", (value) =>
    /^-----BEGIN PUBLIC KEY-----[A-Za-z0-9+/=\s]+-----END PUBLIC KEY-----\s*$/.test(value),
  );

export const webAddress = () =>
  text("must be a URL such as http://127.0.0.1:4318", (value) => {
    if (!URL.canParse(value)) return false;
    const { protocol, username, password } = new URL(value);
    return (protocol === "http:" || protocol === "https:") && username === "" && password === "";
  });

export const headerPairs = () =>
  text("must be name=value pairs, separated by commas", (value) =>
    /^[\w-]+=[\x21-\x2b\x2d-\x7e]*(?:,[\w-]+=[\x21-\x2b\x2d-\x7e]*)*$/.test(value),
  );

export const serviceName = () =>
  text("must be 1 to 128 printable characters", (value) => /^[\x20-\x7e]{1,128}$/.test(value));

export const volumeName = () =>
  text("must be 2 to 64 of A–Z a–z 0–9 _ . -, the first a letter or digit", (value) =>
    /^[A-Za-z0-9][A-Za-z0-9_.-]{1,63}$/.test(value),
  );

/**
 * SECURITY: against reaching a network: a sandbox never shares the network of the machine or of
 * another container. Guarded by load-config.test.ts.
 */
export const networkName = () =>
  text(
    "must be a network of the engine: 1 to 64 of A–Z a–z 0–9 _ . -, and not host or none",
    (value) => /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/.test(value) && !/^(?:host|none)$/i.test(value),
  );

export const networkRule = () =>
  text(
    `${RULE_FORM}, or the name of a preset`,
    (value) => looksLikePreset(value) || parseRule(value) !== undefined,
  );

export const hostName = () =>
  text("must be a host name", (value) => normalizeHostName(value) !== undefined);

export const nameServer = () =>
  text("must be an IP address, or address:port with IPv6 in brackets", (value) => {
    const [, plain, bracketed] =
      /^([^:[\]]+)(?::\d{1,5})?$|^\[([0-9A-Fa-f:.]+)\](?::\d{1,5})?$/.exec(value) ?? [];
    return isIP(plain ?? bracketed ?? value) !== 0;
  });

export const headerName = () =>
  text("must be the name of a header", (value) =>
    /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/.test(value),
  );

export const presetName = () =>
  text(
    `must be 1 to 64 of A–Z a–z 0–9 _ -, and not ${FULL}`,
    (value) => looksLikePreset(value) && value.length <= 64 && value !== FULL,
  );

export const runtimeName = () =>
  text("must be 1 to 64 of A–Z a–z 0–9 _ . -", (value) => /^[A-Za-z0-9_.-]{1,64}$/.test(value));

/** It is sent in a header, so only visible ASCII is allowed. */
export const apiKey = () =>
  text("must have 8 to 512 characters, all of them visible ASCII", (value) =>
    /^[\x21-\x7e]{8,512}$/.test(value),
  );

export const ownerName = () =>
  text("must be 1 to 64 of A–Z a–z 0–9 _ . -", (value) => /^[A-Za-z0-9_.-]{1,64}$/.test(value));

export const imageName = () =>
  text(
    'must be an image: a short name (python), "host", or [registry/]name[:tag][@sha256:digest] in lower case',
    (value) => accepted(() => parseReference(value)),
  );

export const imagePattern = () =>
  text(
    "must be an image, or a pattern of images with * (within a path segment) and ** (across them)",
    (value) => value.length > 0 && accepted(() => new ImageAllowlist([value])),
  );

export const hostAndPort = () => text("must be a host, or host:port", isHostAndPort);

/** Preview names add one label to it, so an IP address does not work. */
export const previewDomain = () =>
  text(
    "must be a domain name, or name:port",
    (value) =>
      /^(?:[A-Za-z0-9-]+\.)*[A-Za-z][A-Za-z0-9-]*(?::\d{1,5})?$/.test(value) && value.length <= 200,
  );

export const registryName = () =>
  text(
    "must be a registry, as host or host:port, or *",
    (value) => value === "*" || isHostAndPort(value),
  );

/** `*` is not allowed: a page of any site could then use a stolen key. */
export const webOrigin = () =>
  text("must be an origin such as https://app.example.com:8443, without a path", (value) => {
    const url = URL.parse(value);
    return url !== null && /^https?:$/.test(url.protocol) && url.origin === value;
  });

function isHostAndPort(value: string): boolean {
  const form =
    /^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/;
  return form.test(value);
}

function accepted(parse: () => unknown): boolean {
  try {
    parse();
    return true;
  } catch {
    return false;
  }
}
