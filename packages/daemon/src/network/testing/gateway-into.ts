/** A gateway into the world that a test makes. */
import type { TestNetwork } from "@sandkasten/testkit";
import type { EgressPolicy } from "../egress.ts";
import { SessionGateway } from "../session-gateway.ts";

export function gatewayInto(network: TestNetwork): SessionGateway {
  return new SessionGateway(
    { policy: () => policyOf(network.rules), observer: network.observer, limiter: network.limiter },
    { resolveName: network.resolveName },
  );
}

/** Rules of names and addresses with one port each. */
function policyOf(rules: readonly string[]): EgressPolicy {
  const has = (host: string, port: number): boolean =>
    rules.includes(`${host}:${String(port)}`) ||
    rules.includes(`${host.replace(/^[^.]+/, "*")}:${String(port)}`);
  return {
    portsOf: (name) =>
      rules
        .filter((rule) => has(name, Number(rule.split(":")[1])))
        .map((rule) => Number(rule.split(":")[1]))
        .map((port) => ({ first: port, last: port })),
    decide: ({ name, address, port }) =>
      (name === undefined || has(name, port)) && (address === undefined || has(address, port))
        ? { allowed: true }
        : { allowed: false, message: `${name ?? address ?? ""}:${String(port)} is not allowed` },
  };
}
