/** Converts the network that a caller requests to rules, or reports which setting does not allow it. */
import { SandboxError } from "@sandkasten/protocol";
import type { Ceiling } from "./policy.ts";
import {
  formatRule,
  intersectRules,
  isCovered,
  parseRule,
  PUBLIC_RULE,
  RULE_FORM,
} from "./rules.ts";
import type { Rule } from "./rules.ts";

/** As in a request or the configuration. `true` is what older clients send. */
export type NetworkRequest = boolean | "none" | "full" | { readonly allow: readonly string[] };

/** As the gateway enforces it: checked, presets resolved, each rule in its canonical spelling. */
export type PlannedNetwork = "none" | { readonly allow: readonly string[] };

/** The administrator's settings for networks. */
export interface NetworkTerms {
  /** Sets of rules by name, in addition to `full`. */
  readonly presets: ReadonlyMap<string, readonly Rule[]>;
  /** For requests that ask for a network without details; the whole ceiling when absent. */
  readonly default?: readonly Rule[];
  /** The maximum for the sessions of all callers: `network.allow`. */
  readonly ceiling: readonly Rule[];
}

/** The built-in preset: every public address, on every port. */
export const FULL = "full";

/** More than this is a mistake, and would make each decision slow. */
const MAX_RULES = 512;

const ADMINISTRATOR_CEILING = "the administrator's `network.allow`";
const KEY_CEILING = "the `network_allow` of this API key";

/** The ceilings that apply to a caller, in the order in which they are checked. */
export function ceilingsOf(
  terms: NetworkTerms,
  ofCaller: readonly Rule[] | undefined,
): readonly Ceiling[] {
  return [
    { name: ADMINISTRATOR_CEILING, rules: terms.ceiling },
    ...(ofCaller === undefined ? [] : [{ name: KEY_CEILING, rules: ofCaller }]),
  ];
}

/**
 * SECURITY: a network requires both a caller who requests it and an administrator who allows it; a
 * preset is resolved first and then checked against the ceilings like explicit rules. Guarded by
 * plan-network.test.ts.
 */
export function planNetwork(
  asked: NetworkRequest,
  terms: NetworkTerms,
  ceilings: readonly Ceiling[],
): PlannedNetwork {
  if (asked === false || asked === "none") return "none";
  if (asked === true) return usualNetwork(terms, ceilings);
  const rules = resolveRules(asked === "full" ? [FULL] : asked.allow, terms.presets);
  for (const { name, rules: ceiling } of ceilings) {
    const refused = rules.filter((rule) => !isCovered(rule, ceiling));
    if (refused.length > 0) throw exceeds(name, refused, ceiling);
  }
  return networkOf(rules);
}

/** The rules of a session. */
export function rulesOf(network: PlannedNetwork): readonly Rule[] {
  return network === "none" ? [] : resolveRules(network.allow, new Map());
}

/** Whether rules allow every public address, which is written as `full`. */
export function isFull({ allow }: { readonly allow: readonly string[] }): boolean {
  return allow.length === 1 && allow[0] === formatRule(PUBLIC_RULE);
}

/** Rules and names of presets, without repetition. INVALID_REQUEST for anything else. */
export function resolveRules(
  texts: readonly string[],
  presets: ReadonlyMap<string, readonly Rule[]>,
): readonly Rule[] {
  const rules = new Map<string, Rule>();
  for (const text of texts)
    for (const rule of presetOf(text, presets) ?? [requireRule(text, presets)])
      rules.set(formatRule(rule), rule);
  if (rules.size > MAX_RULES)
    throw new SandboxError(
      "INVALID_REQUEST",
      `a network can have at most ${MAX_RULES} rules, not ${rules.size}; use wildcards or fewer rules`,
    );
  return [...rules.values()];
}

function presetOf(
  text: string,
  presets: ReadonlyMap<string, readonly Rule[]>,
): readonly Rule[] | undefined {
  return text === FULL ? [PUBLIC_RULE] : presets.get(text);
}

function usualNetwork(terms: NetworkTerms, ceilings: readonly Ceiling[]): PlannedNetwork {
  let rules = terms.default ?? terms.ceiling;
  if (terms.default?.length === 0) throw noNetwork("the administrator's `network.default`");
  for (const { name, rules: ceiling } of ceilings) {
    rules = intersectRules(rules, ceiling);
    if (rules.length === 0) throw noNetwork(name);
  }
  return networkOf(rules);
}

function noNetwork(by: string): SandboxError {
  return new SandboxError(
    "PERMISSION_DENIED",
    `sandboxes have no network here: ${by} allows none; leave \`network\` out and bring files in with uploads, or ask the administrator to allow it`,
    { details: { by } },
  );
}

function networkOf(rules: readonly Rule[]): PlannedNetwork {
  return { allow: rules.map(formatRule) };
}

function requireRule(text: string, presets: ReadonlyMap<string, unknown>): Rule {
  const rule = parseRule(text);
  if (rule !== undefined && !looksLikePreset(text)) return rule;
  const known = [FULL, ...presets.keys()].join(", ");
  const shown = JSON.stringify(text.slice(0, 128));
  throw new SandboxError(
    "INVALID_REQUEST",
    looksLikePreset(text)
      ? `there is no network preset ${shown}; choose one of: ${known}, or name a host with its port (${text}:443)`
      : `the network rule ${shown} ${RULE_FORM}`,
  );
}

/** A single word could be a host on the local network, too; with a port, it is one. */
export function looksLikePreset(text: string): boolean {
  return /^[A-Za-z0-9_-]+$/.test(text);
}

const SHOWN_RULES = 8;

function exceeds(by: string, refused: readonly Rule[], ceiling: readonly Rule[]): SandboxError {
  const texts = refused.map(formatRule);
  const allowed = ceiling.map(formatRule);
  return new SandboxError(
    "PERMISSION_DENIED",
    `${by} does not allow ${listed(texts)}; it allows ${allowed.length === 0 ? "no network" : listed(allowed)}. ` +
      "Ask for less, or ask the administrator to add what is missing",
    { details: { by, refused: texts.slice(0, MAX_RULES), allowed: allowed.slice(0, MAX_RULES) } },
  );
}

function listed(texts: readonly string[]): string {
  const more = texts.length - SHOWN_RULES;
  return texts.slice(0, SHOWN_RULES).join(" ") + (more > 0 ? ` and ${more} more` : "");
}
