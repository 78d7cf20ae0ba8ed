/** Decides where the programs of one sandbox may connect to. */
import { addressKind } from "./address-kind.ts";
import { parseAddress } from "./addresses.ts";
import type { Address } from "./addresses.ts";
import { normalizeHostName } from "./host-names.ts";
import { hasPort, intersectPorts, joined } from "./port-ranges.ts";
import type { PortRange } from "./port-ranges.ts";
import { matchesName, matchesPublicAddress, namesAddress } from "./rules.ts";
import type { Rule } from "./rules.ts";

/**
 * Where a program wants to connect. A name alone: can it be resolved? A name with an address: can it be
 * reached at the resolved address? An address alone: a literal.
 */
export interface Destination {
  readonly name?: string;
  readonly address?: string;
  readonly port: number;
}

export type Decision =
  | { readonly allowed: true }
  | { readonly allowed: false; readonly reason: DenialReason; readonly message: string };

export type DenialReason =
  /** Neither a host name nor an address in its usual notation. */
  | "invalid_destination"
  /** No rule of the session names the destination. */
  | "not_allowed"
  /** A rule of the session names it, but on other ports. */
  | "port_not_allowed"
  /** The session's rules allow it; those of the administrator or of the API key do not. */
  | "above_ceiling"
  /** The address is not public, and no rule names it. */
  | "private_address";

/** A set of rules that must allow a destination, and its name in messages. */
export interface Ceiling {
  /** As in "the administrator's `network.allow`". */
  readonly name: string;
  readonly rules: readonly Rule[];
}

const ALLOWED: Decision = { allowed: true };

/**
 * SECURITY: the session's own rules and every ceiling must allow a destination, at each check, so
 * that a ceiling that was lowered also applies to older sessions. Guarded by
 * policy.test.ts.
 */
export class NetworkPolicy {
  readonly rules: readonly Rule[];
  readonly #ceilings: readonly Ceiling[];
  readonly #isOwnAddress: (address: string) => boolean;

  constructor(
    rules: readonly Rule[],
    ceilings: readonly Ceiling[],
    /** Whether an address belongs to the machine that the daemon runs on. */
    isOwnAddress: (address: string) => boolean = () => false,
  ) {
    this.rules = rules;
    this.#ceilings = ceilings;
    this.#isOwnAddress = isOwnAddress;
  }

  decide({ name: nameText, address: addressText, port }: Destination): Decision {
    const name = nameText === undefined ? undefined : normalizeHostName(nameText);
    const address = addressText === undefined ? undefined : parseAddress(addressText);
    const isMalformed =
      (nameText !== undefined && name === undefined) ||
      (addressText !== undefined && address === undefined) ||
      (name === undefined && address === undefined);
    if (isMalformed)
      return denied(
        "invalid_destination",
        `${JSON.stringify((nameText ?? addressText ?? "").slice(0, 64))} is neither a host name nor an IP address`,
      );
    const shown = name ?? address?.text ?? "";
    const own = verdict(this.rules, name, address, port, this.#isOwnAddress);
    if (own === "port")
      return denied(
        "port_not_allowed",
        `the session's network policy allows ${shown}, but not port ${port}`,
      );
    if (own === "address") return deniedAddress(shown, address);
    if (own === "target")
      return denied("not_allowed", `the session's network policy does not allow ${shown}:${port}`);
    for (const { name: by, rules } of this.#ceilings) {
      const above = verdict(rules, name, address, port, this.#isOwnAddress);
      if (above === "address") return deniedAddress(shown, address);
      if (above !== "allowed")
        return denied("above_ceiling", `${by} does not allow ${shown}:${port}`);
    }
    return ALLOWED;
  }

  /** The ports on which a name can be reached; none for a name that must not be resolved. */
  portsOf(nameText: string): readonly PortRange[] {
    const name = normalizeHostName(nameText);
    if (name === undefined) return [];
    const portsIn = (rules: readonly Rule[]): readonly PortRange[] =>
      joined(rules.filter((rule) => matchesName(rule, name)).flatMap(({ ports }) => ports));
    return this.#ceilings.reduce(
      (ports, { rules }) => intersectPorts(ports, portsIn(rules)),
      portsIn(this.rules),
    );
  }
}

type Verdict = "allowed" | "target" | "port" | "address";

function verdict(
  rules: readonly Rule[],
  name: string | undefined,
  address: Address | undefined,
  port: number,
  isOwnAddress: (address: string) => boolean,
): Verdict {
  const allowsPort = (matching: readonly Rule[]): boolean =>
    matching.some(({ ports }) => hasPort(ports, port));
  // SECURITY: an address of this machine, of its neighbours or of a metadata service is only allowed
  // if a rule names the address itself, even for an allowed name (DNS rebinding).
  // Guarded by policy.test.ts.
  const isSpecial =
    address !== undefined && (addressKind(address.text) !== "public" || isOwnAddress(address.text));
  const ofAddress =
    address === undefined
      ? []
      : rules.filter((rule) => (isSpecial ? namesAddress : matchesPublicAddress)(rule, address));
  const ofTarget = name === undefined ? ofAddress : rules.filter((rule) => matchesName(rule, name));
  if (ofTarget.length === 0) return "target";
  if (!allowsPort(ofTarget)) return "port";
  return isSpecial && !allowsPort(ofAddress) ? "address" : "allowed";
}

function denied(reason: DenialReason, message: string): Decision {
  return { allowed: false, reason, message };
}

function deniedAddress(name: string, address: Address | undefined): Decision {
  const text = address?.text ?? "";
  return denied(
    "private_address",
    `${name} leads to ${text}, which is not a public address; a rule of the session and of the administrator must name ${text}`,
  );
}
