/** Parses `host:port` and distinguishes loopback addresses from all others. */
import { BlockList, isIPv4, isIPv6 } from "node:net";

export interface ListenAddress {
  /** A name or an address, without brackets. */
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
}

export const LISTEN_FORM =
  "must be host:port with a port from 0 to 65535, as 127.0.0.1:8080, [::1]:8080 or localhost:0 (0.0.0.0:8080 for every address)";

const HOST_NAME =
  /^(?=.{1,253}$)[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$/;

/** The address in a text, or undefined if it is invalid. */
export function parseListenAddress(text: string): ListenAddress | undefined {
  const match = /^(?:\[(?<v6>[^\]]+)\]|(?<name>[^:[\]]+)):(?<port>\d{1,5})$/.exec(text);
  if (match?.groups === undefined) return undefined;
  const { v6, name = "", port: digits } = match.groups;
  const port = Number(digits);
  if (port > 65_535) return undefined;
  if (v6 !== undefined) return isIPv6(v6) ? { host: v6, port } : undefined;
  return isIPv4(name) || isName(name) ? { host: name, port } : undefined;
}

/** Some resolvers treat `127.1` as an address; a name does not end in a number. */
function isName(text: string): boolean {
  return HOST_NAME.test(text) && !/(?:^|\.)(?:\d+|0x[0-9a-f]*)$/i.test(text);
}

export function isLoopback(host: string): boolean {
  if (isIPv4(host)) return loopback().check(host, "ipv4");
  if (isIPv6(host)) return loopback().check(host, "ipv6");
  return host.toLowerCase() === "localhost";
}

function loopback(): BlockList {
  const list = new BlockList();
  list.addSubnet("127.0.0.0", 8, "ipv4");
  list.addAddress("::1", "ipv6");
  return list;
}

/**
 * The reason against listening there, or undefined.
 *
 * SECURITY: a client that reaches the API with a key runs code on this machine (threat: unauthorized
 * access). Beyond loopback the operator must have chosen the keys; a generated key is not a choice.
 * Guarded by listen-address.test.ts and load-config.test.ts.
 */
export function exposureProblem(
  address: ListenAddress,
  configuredKeys: readonly unknown[],
): string | undefined {
  if (isLoopback(address.host) || configuredKeys.length > 0) return undefined;
  return `is reachable from other machines, and no key is configured; set api_key (SANDKASTEN_API_KEY) or api_keys, or listen on 127.0.0.1:${address.port}`;
}
