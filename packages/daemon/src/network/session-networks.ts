/** The networks of active sessions: the rules, records and remaining limits of each. */
import type { IsolationReport } from "../ports/backend.ts";
import type { Channel } from "../ports/channel.ts";
import type { Clock } from "../ports/clock.ts";
import type { EgressCounts, EgressLog } from "../ports/egress-log.ts";
import type { ConnectionObserver, SessionEgress } from "./egress.ts";
import { EdgeInterceptor } from "./edge-interceptor.ts";
import { EgressRecorder, EgressTotals } from "./egress-recorder.ts";
import type { OpenConnection } from "./egress-recorder.ts";
import { SessionLimiter } from "./egress-limits.ts";
import type { EgressLimits } from "./egress-limits.ts";
import { planSecrets } from "./edge-secrets.ts";
import type { SecretRequest } from "./edge-secrets.ts";
import type { ResolveName } from "./name-resolver.ts";
import { ceilingsOf, planNetwork, rulesOf } from "./plan-network.ts";
import type { NetworkRequest, NetworkTerms, PlannedNetwork } from "./plan-network.ts";
import { NetworkPolicy } from "./policy.ts";
import type { Rule } from "./rules.ts";
import { SessionGateway } from "./session-gateway.ts";
import { tryDestinations } from "./try-destinations.ts";
import { certificateOf, sealSecrets, secretProxy } from "./session-secrets.ts";
import type { SealedSecrets, SecretParts } from "./session-secrets.ts";

export interface SessionNetworksOptions {
  readonly terms: NetworkTerms;
  readonly limits: EgressLimits;
  /** The maximum for the sessions of an API key, by its name, if it is less than everything. */
  readonly ceilingOf: (owner: string) => readonly Rule[] | undefined;
  readonly log: EgressLog;
  readonly clock: Clock;
  readonly isOwnAddress: (address: string) => boolean;
  readonly resolveName: ResolveName;
  readonly secrets: SecretParts;
}

/** What is needed to enforce the network of a session. */
export interface NetworkedSession {
  readonly id: string;
  readonly owner: string;
  readonly network: PlannedNetwork & { readonly secrets?: SealedSecrets };
}

export class SessionNetworks {
  readonly #options: SessionNetworksOptions;
  readonly #totals = new EgressTotals();
  readonly #living = new Map<string, SessionNetwork>();

  constructor(options: SessionNetworksOptions) {
    this.#options = options;
  }

  get log(): EgressLog {
    return this.#options.log;
  }

  /** PERMISSION_DENIED for what the administrator does not allow this key. */
  plan(owner: string, asked: NetworkRequest): PlannedNetwork {
    const { terms, ceilingOf } = this.#options;
    return planNetwork(asked, terms, ceilingsOf(terms, ceilingOf(owner)));
  }

  /** Encrypts the secrets of a request. INVALID_REQUEST for hosts that the network does not allow. */
  async seal(
    owner: string,
    network: PlannedNetwork,
    requests: readonly SecretRequest[],
  ): Promise<SealedSecrets> {
    const { secrets: parts, clock } = this.#options;
    const policy = this.#policyOf(owner, network);
    const secrets = planSecrets(requests, { store: parts.store, owner, policy });
    return await sealSecrets(secrets, owner, parts, clock.nowMs());
  }

  /** Distinguishes requests with different secrets, without revealing the secrets. */
  fingerprint(text: string): string {
    return this.#options.secrets.box.fingerprint(text);
  }

  /** PEM, for the sandbox to trust. */
  certificateOf(secrets: SealedSecrets, owner: string): string {
    return certificateOf(secrets, owner, this.#options.secrets);
  }

  /** The network of an active session, the same object until it is removed. */
  of(session: NetworkedSession): SessionNetwork {
    const found = this.#living.get(session.id);
    if (found !== undefined) return found;
    const { limits, log, clock } = this.#options;
    const limiter = new SessionLimiter(limits, () => clock.monotonicMs());
    const { network, owner } = session;
    const sealed = network === "none" ? undefined : network.secrets;
    const made = new SessionNetwork({
      policy: this.#policyOf(owner, network),
      limiter,
      interceptor: new EdgeInterceptor(
        sealed &&
          secretProxy(sealed, owner, this.#options.secrets, {
            nowMs: () => clock.nowMs(),
            take: (bytes) => limiter.take(undefined, bytes),
          }),
      ),
      recorder: new EgressRecorder(
        (record) => log.add(session.id, record),
        this.#totals,
        () => clock.nowMs(),
      ),
    });
    this.#living.set(session.id, made);
    return made;
  }

  /** Lets the programs of a session use its network, as long as the channel is open. */
  async serve(session: NetworkedSession, channel: Pick<Channel, "openNetwork">): Promise<void> {
    const network = this.of(session);
    await network.countEarlier(() => this.log.usedBytes(session.id));
    const gateway = new SessionGateway(network, { resolveName: this.#options.resolveName });
    network.attach(gateway);
    await channel.openNetwork(gateway);
  }

  /** From now on the session has this network; forbidden connections are closed. */
  change(session: NetworkedSession, network: PlannedNetwork): void {
    this.of(session).change(this.#policyOf(session.owner, network));
  }

  /** Adds the results of the destinations that the sandbox tried to a report. */
  async tryOut(
    session: NetworkedSession,
    channel: Pick<Channel, "dial">,
    report: IsolationReport,
  ): Promise<IsolationReport> {
    const fact = await tryDestinations(channel, this.of(session).policy());
    const tier = fact.enforced ? report.tier : "weak";
    return { ...report, tier, facts: [...report.facts, fact] };
  }

  openConnections(sessionId: string): readonly OpenConnection[] {
    return this.#living.get(sessionId)?.openConnections() ?? [];
  }

  /** The session has ended. */
  remove(sessionId: string): void {
    this.#living.get(sessionId)?.close();
    this.#living.delete(sessionId);
  }

  counts(): EgressCounts {
    return this.#totals.counts();
  }

  #policyOf(owner: string, network: PlannedNetwork): NetworkPolicy {
    const { terms, ceilingOf, isOwnAddress } = this.#options;
    return new NetworkPolicy(rulesOf(network), ceilingsOf(terms, ceilingOf(owner)), isOwnAddress);
  }
}

interface SessionNetworkParts {
  readonly policy: NetworkPolicy;
  readonly limiter: SessionLimiter;
  readonly recorder: EgressRecorder;
  readonly interceptor: EdgeInterceptor;
}

export class SessionNetwork implements SessionEgress {
  readonly limiter: SessionLimiter;
  readonly observer: ConnectionObserver;
  readonly interceptor: EdgeInterceptor;
  readonly #recorder: EgressRecorder;
  #gateway: SessionGateway | undefined;
  #counted: Promise<void> | undefined;
  #policy: NetworkPolicy;

  constructor({ policy, limiter, recorder, interceptor }: SessionNetworkParts) {
    this.#policy = policy;
    this.limiter = limiter;
    this.#recorder = recorder;
    this.observer = recorder;
    this.interceptor = interceptor;
  }

  readonly policy = (): NetworkPolicy => this.#policy;

  openConnections(): readonly OpenConnection[] {
    return this.#recorder.openConnections();
  }

  change(policy: NetworkPolicy): void {
    this.#policy = policy;
    this.#gateway?.recheck();
  }

  /** Once: from then on, the limiter counts itself. */
  async countEarlier(usedBytes: () => Promise<number>): Promise<void> {
    this.#counted ??= usedBytes().then((bytes) => this.limiter.countEarlier(bytes));
    await this.#counted;
  }

  /** The gateway of the session's channel; the previous channel is closed. */
  attach(gateway: SessionGateway): void {
    this.#gateway?.close();
    this.#gateway = gateway;
  }

  close(): void {
    this.#gateway?.close();
  }
}
