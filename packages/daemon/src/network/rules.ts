/** One rule of a network policy: a destination and its ports. */
import { isPublicNetwork, namesSpecialAddress } from "./address-kind.ts";
import { Network } from "./addresses.ts";
import type { Address } from "./addresses.ts";
import { normalizeHostName } from "./host-names.ts";
import {
  ALL_PORTS,
  coversPorts,
  formatPorts,
  intersectPorts,
  joined,
  parsePorts,
  WEB_PORTS,
} from "./port-ranges.ts";
import type { PortRange } from "./port-ranges.ts";

/**
 * `name`: one host. `subdomains`: all hosts below a name, at any depth, without the name itself.
 * `network`: addresses. `public`: every public name and address.
 */
export type Target =
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "subdomains"; readonly name: string }
  | { readonly kind: "network"; readonly network: Network }
  | { readonly kind: "public" };

export interface Rule {
  readonly target: Target;
  /** In order and merged. */
  readonly ports: readonly PortRange[];
}

/** The meaning of `full`. */
export const PUBLIC_RULE: Rule = { target: { kind: "public" }, ports: ALL_PORTS };

export const RULE_FORM =
  "must be a host (api.example.com), hosts below a name (*.example.com), a network (10.1.2.0/24, [2001:db8::/32]) or * for every public host, each optionally with ports (:443,8000-8100 or :*)";

/** Undefined for anything that is not a rule. */
export function parseRule(text: string): Rule | undefined {
  const [, bracketed, plain, portText] =
    /^(?:\[([0-9a-fA-F:./]+)\]|([^:[\]]+))(?::([0-9,*-]+))?$/.exec(text) ?? [];
  const ports = portText === undefined ? WEB_PORTS : parsePorts(portText);
  if (ports === undefined) return undefined;
  // An IPv6 network without ports needs no brackets.
  const target = parseTarget(bracketed ?? plain ?? text);
  return target === undefined ? undefined : { target, ports };
}

function parseTarget(text: string): Target | undefined {
  if (text === "*") return { kind: "public" };
  const network = Network.parse(text);
  if (network !== undefined) return { kind: "network", network };
  const isWildcard = text.startsWith("*.");
  const name = normalizeHostName(isWildcard ? text.slice(2) : text);
  if (name === undefined) return undefined;
  // Everything below a top-level domain is hardly ever intended; `*` says it clearly.
  if (isWildcard && !name.includes(".")) return undefined;
  return { kind: isWildcard ? "subdomains" : "name", name };
}

/** In the form that `parseRule` accepts, in one spelling for all equivalent rules. */
export function formatRule({ target, ports }: Rule): string {
  return `${formatTarget(target)}:${formatPorts(ports)}`;
}

function formatTarget(target: Target): string {
  if (target.kind === "public") return "*";
  if (target.kind === "network")
    return target.network.family === "ipv6" ? `[${target.network.text}]` : target.network.text;
  return target.kind === "subdomains" ? `*.${target.name}` : target.name;
}

/** Whether a rule covers this name, whatever the port. */
export function matchesName({ target }: Rule, name: string): boolean {
  switch (target.kind) {
    case "public":
      return true;
    case "network":
      return false;
    case "name":
      return target.name === name;
    case "subdomains":
      return name.endsWith(`.${target.name}`);
  }
}

/** Whether a rule covers this public address, whatever the port. */
export function matchesPublicAddress({ target }: Rule, address: Address): boolean {
  return target.kind === "public" || (target.kind === "network" && target.network.has(address));
}

/** Whether a rule names this address, which is not public or belongs to this machine. */
export function namesAddress({ target }: Rule, address: Address): boolean {
  return target.kind === "network" && namesSpecialAddress(target.network, address);
}

/** Whether the rules of a ceiling, taken together, allow everything that a rule allows. */
export function isCovered(rule: Rule, ceiling: readonly Rule[]): boolean {
  const ports = ceiling
    .filter(({ target }) => targetCovers(target, rule.target))
    .flatMap((covering) => covering.ports);
  return coversPorts(joined(ports), rule.ports);
}

function targetCovers(outer: Target, inner: Target): boolean {
  if (outer.kind === "public")
    return inner.kind === "network" ? isPublicNetwork(inner.network) : true;
  if (inner.kind === "network")
    return outer.kind === "network" && outer.network.covers(inner.network);
  if (inner.kind === "public" || outer.kind === "network") return false;
  if (outer.kind === "name") return inner.kind === "name" && inner.name === outer.name;
  const isBelow = inner.name.endsWith(`.${outer.name}`);
  return inner.kind === "subdomains" ? isBelow || inner.name === outer.name : isBelow;
}

/** What both lists allow. Targets are disjoint or one covers the other, so pairs suffice. */
export function intersectRules(one: readonly Rule[], other: readonly Rule[]): readonly Rule[] {
  const both = new Map<string, Rule>();
  for (const a of one)
    for (const b of other) {
      const ports = intersectPorts(a.ports, b.ports);
      if (ports.length === 0) continue;
      const target = narrower(a.target, b.target);
      if (target === undefined) continue;
      const rule = { target, ports };
      both.set(formatRule(rule), rule);
    }
  return [...both.values()];
}

function narrower(one: Target, other: Target): Target | undefined {
  if (targetCovers(one, other)) return other;
  return targetCovers(other, one) ? one : undefined;
}
