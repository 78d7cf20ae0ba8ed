/** A gateway into the world of a test, with the policy and the checks of sessions. */
import type { TestNetwork } from "@sandkasten/testkit";
import { EdgeInterceptor } from "../edge-interceptor.ts";
import { ownAddresses } from "../own-addresses.ts";
import { resolveRules } from "../plan-network.ts";
import { NetworkPolicy } from "../policy.ts";
import { SessionGateway } from "../session-gateway.ts";

export function gatewayInto(network: TestNetwork): SessionGateway {
  const isOwnAddress = ownAddresses(() => performance.now());
  const policy = (): NetworkPolicy =>
    new NetworkPolicy(resolveRules(network.rules, new Map()), [], isOwnAddress);
  const { observer, limiter, resolveName } = network;
  return new SessionGateway(
    { policy, observer, limiter, interceptor: new EdgeInterceptor() },
    { resolveName },
  );
}
