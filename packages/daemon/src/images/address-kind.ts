/** Tells addresses of the internet from those that only lead to this machine or its neighbours. */
import { BlockList, isIPv4, isIPv6 } from "node:net";

/** `local`: this machine, its link, and what no packet should be sent to. */
export type AddressKind = "public" | "private" | "local";

const LOCAL_V4 = subnets("ipv4", [
  ["0.0.0.0", 8],
  ["127.0.0.0", 8],
  // Metadata services of clouds: link-local, and the one of Azure that looks like any other.
  ["169.254.0.0", 16],
  ["168.63.129.16", 32],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 3],
]);
const PRIVATE_V4 = subnets("ipv4", [
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
]);
const GLOBAL_V6 = subnets("ipv6", [["2000::", 3]]);
/** Teredo, 6to4 and the like lead to addresses of version 4 that they hide. */
const SPECIAL_V6 = subnets("ipv6", [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
]);
const PRIVATE_V6 = subnets("ipv6", [["fc00::", 7]]);

export function addressKind(address: string): AddressKind {
  if (isIPv4(address)) {
    if (LOCAL_V4.check(address)) return "local";
    return PRIVATE_V4.check(address) ? "private" : "public";
  }
  if (!isIPv6(address)) return "local";
  if (PRIVATE_V6.check(address, "ipv6")) return "private";
  const isPublic = GLOBAL_V6.check(address, "ipv6") && !SPECIAL_V6.check(address, "ipv6");
  return isPublic ? "public" : "local";
}

function subnets(
  family: "ipv4" | "ipv6",
  networks: readonly (readonly [network: string, prefix: number])[],
): BlockList {
  const list = new BlockList();
  for (const [network, prefix] of networks) list.addSubnet(network, prefix, family);
  return list;
}
