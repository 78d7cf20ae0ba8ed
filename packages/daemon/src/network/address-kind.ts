/** Distinguishes public addresses from those that only reach this machine or its neighbours. */
import { Network, parseAddress } from "./addresses.ts";
import type { Address } from "./addresses.ts";

/** `local`: this machine, its link, and addresses to which no packet should be sent. */
export type AddressKind = "public" | "private" | "local";

const LOCAL = networks(
  "0.0.0.0/8",
  "127.0.0.0/8",
  // Metadata services of clouds: link-local, and Azure's, which looks like any other address.
  "169.254.0.0/16",
  "168.63.129.16",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/3",
  // Teredo, 6to4 and the like contain IPv4 addresses.
  "2001::/23",
  "2001:db8::/32",
  "2002::/16",
  "3fff::/20",
  "::/8",
  "fe80::/10",
  "ff00::/8",
);
/** Not valid as destinations: this network, multicast and broadcast. */
const NEVER = networks("0.0.0.0/8", "224.0.0.0/3", "::/128", "ff00::/8");
const PRIVATE = networks(
  "10.0.0.0/8",
  "100.64.0.0/10",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "fc00::/7",
);
const GLOBAL = networks("0.0.0.0/0", "2000::/3");

export function addressKind(text: string): AddressKind {
  const address = parseAddress(text);
  // A name server does not return IPv4 addresses wrapped in IPv6 ones.
  if (address === undefined || (address.family === "ipv4" && text.includes(":"))) return "local";
  if (PRIVATE.some((network) => network.has(address))) return "private";
  const isPublic =
    GLOBAL.some((network) => network.has(address)) &&
    !LOCAL.some((network) => network.has(address));
  return isPublic ? "public" : "local";
}

/**
 * Whether a network in a rule names an address that is not public.
 *
 * SECURITY: `0.0.0.0/0` means the internet to most people, so it must not allow the machine's loopback
 * or a metadata service; only a network within the same special range does. Guarded by
 * policy.test.ts.
 */
export function namesSpecialAddress(network: Network, address: Address): boolean {
  if (!network.has(address) || NEVER.some((range) => range.has(address))) return false;
  const special = [...LOCAL, ...PRIVATE].find((range) => range.has(address));
  return special === undefined ? network.isSingle : special.covers(network);
}

/** Whether every address of a network is public. */
export function isPublicNetwork(network: Network): boolean {
  return (
    GLOBAL.some((whole) => whole.covers(network)) &&
    ![...LOCAL, ...PRIVATE].some((special) => special.overlaps(network))
  );
}

function networks(...texts: readonly string[]): readonly Network[] {
  return texts.map((text) => {
    const network = Network.parse(text);
    if (network === undefined) throw new TypeError(`${text} is not a network`);
    return network;
  });
}
