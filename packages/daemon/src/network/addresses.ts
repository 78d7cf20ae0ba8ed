/** IP addresses in their canonical form, and networks that contain them. */
import { BlockList, isIPv4, isIPv6, SocketAddress } from "node:net";

export type Family = "ipv4" | "ipv6";

export interface Address {
  readonly text: string;
  readonly family: Family;
}

/**
 * Undefined for anything that is not an address in its usual notation.
 *
 * SECURITY: an IPv4 address that is wrapped in an IPv6 one is judged as the IPv4 address. Guarded by
 * policy.test.ts.
 */
export function parseAddress(text: string): Address | undefined {
  if (isIPv4(text)) return { text, family: "ipv4" };
  if (!isIPv6(text) || text.includes("%")) return undefined;
  const { address } = new SocketAddress({ address: text, family: "ipv6" });
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(address)?.[1];
  return mapped === undefined
    ? { text: address, family: "ipv6" }
    : { text: mapped, family: "ipv4" };
}

/** All addresses that begin with the same bits. */
export class Network {
  readonly family: Family;
  readonly prefix: number;
  readonly #base: string;
  readonly #list = new BlockList();

  constructor(base: Address, prefix: number) {
    this.family = base.family;
    this.prefix = prefix;
    this.#base = base.text;
    this.#list.addSubnet(base.text, prefix, base.family);
  }

  /** `10.1.2.0/24`, `2001:db8::/32`, or one address. */
  static parse(text: string): Network | undefined {
    const [, base = "", bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
    const address = parseAddress(base);
    if (address === undefined) return undefined;
    // The length of a mapped prefix counts bits of the longer address; the plain form is clearer.
    if (bits !== undefined && address.family === "ipv4" && base.includes(":")) return undefined;
    const most = address.family === "ipv4" ? 32 : 128;
    const prefix = bits === undefined ? most : Number(bits);
    return prefix <= most ? new Network(address, prefix) : undefined;
  }

  has({ text, family }: Address): boolean {
    // BlockList treats mapped addresses as IPv4 ones, and vice versa.
    return family === this.family && this.#list.check(text, family);
  }

  covers(other: Network): boolean {
    return this.prefix <= other.prefix && this.has({ text: other.#base, family: other.family });
  }

  overlaps(other: Network): boolean {
    return this.covers(other) || other.covers(this);
  }

  get isSingle(): boolean {
    return this.prefix === (this.family === "ipv4" ? 32 : 128);
  }

  /** In the form that `parse` accepts. */
  get text(): string {
    return this.isSingle ? this.#base : `${this.#base}/${this.prefix}`;
  }
}
