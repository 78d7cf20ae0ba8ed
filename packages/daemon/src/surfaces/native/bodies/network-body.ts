/** Converts networks and connections between the core's terms and the API's. */
import { SandboxError } from "@sandkasten/protocol";
import type {
  ChangeNetworkBody,
  CreateSession,
  EgressPageBody,
  EgressRecordBody,
  NetworkRequestBody,
  SessionBody,
} from "@sandkasten/protocol";
import type { SecretRequest } from "../../../network/edge-secrets.ts";
import { isFull } from "../../../network/plan-network.ts";
import type { NetworkRequest } from "../../../network/plan-network.ts";
import type { EgressPage, EgressRecord } from "../../../ports/egress-log.ts";
import type { SessionNetwork } from "../../../ports/session-store.ts";
import type { OpenEgress } from "../../../sessions/services/network-service.ts";

export function networkBody(
  network: SessionNetwork,
): Pick<SessionBody, "network" | "network_via" | "secrets"> {
  if (network === "none") return { network };
  if (network === "engine") return { network: "full", network_via: "engine" };
  return {
    network: isFull(network) ? "full" : { allow: [...network.allow] },
    network_via: "gateway",
    ...(network.secrets !== undefined && {
      secrets: network.secrets.headers.map((header) => ({ ...header })),
    }),
  };
}

/** Undefined if the request does not mention it. */
export function askedNetwork({
  network,
  allow_network: older,
}: Pick<CreateSession, "network" | "allow_network">): NetworkRequest | undefined {
  const asked = network === undefined ? undefined : networkRequest(network);
  if (asked === undefined || older === undefined) return asked ?? older;
  if (older !== (asked !== false && asked !== "none"))
    throw new SandboxError(
      "INVALID_REQUEST",
      "`network` and `allow_network` contradict each other; omit `allow_network`",
    );
  return asked;
}

export function askedSecrets(secrets: CreateSession["secrets"] = []): readonly SecretRequest[] {
  return secrets.map(({ host, header, value, name }) => ({
    host,
    header,
    ...(value !== undefined && { value }),
    ...(name !== undefined && { name }),
  }));
}

export function changedNetwork({ network, allow }: ChangeNetworkBody): NetworkRequest {
  return allow === undefined ? networkRequest(network ?? "none") : { allow };
}

function networkRequest(network: NetworkRequestBody): NetworkRequest {
  if (typeof network !== "object") return network;
  const { allow, enabled } = network;
  if (enabled === false || allow === undefined) return enabled === true;
  return { allow };
}

export function egressPageBody(
  page: EgressPage & { readonly open: readonly OpenEgress[] },
): EgressPageBody {
  return {
    records: page.records.map(egressRecordBody),
    cursor: page.cursor,
    missing: page.missing,
    open: page.open.map(({ startedAtMs, sentBytes, receivedBytes, ...rest }) => ({
      started_at: new Date(startedAtMs).toISOString(),
      ...rest,
      sent_bytes: sentBytes,
      received_bytes: receivedBytes,
    })),
  };
}

export function egressRecordBody({
  sequence,
  startedAtMs,
  endedAtMs,
  sentBytes,
  receivedBytes,
  ...rest
}: EgressRecord): EgressRecordBody {
  return {
    cursor: sequence,
    started_at: new Date(startedAtMs).toISOString(),
    ended_at: new Date(endedAtMs).toISOString(),
    ...rest,
    sent_bytes: sentBytes,
    received_bytes: receivedBytes,
  };
}
