/** The channels into sandboxes that this process has open, for reuse. */
import type { RunnerChannel } from "../../channel/runner-channel.ts";

interface Known {
  readonly channel: RunnerChannel;
  /** Its owner closes it. A channel opened by create belongs to us until it is first requested. */
  isHandedOut: boolean;
}

export class SandboxChannels {
  readonly #known = new Map<string, Known>();

  /** Keeps the channel opened by create for its first user. */
  keep(id: string, channel: RunnerChannel): void {
    this.#known.set(id, { channel, isHandedOut: false });
  }

  /** The channel opened by create, once, if it is still connected. */
  handOut(id: string): RunnerChannel | undefined {
    const known = this.#known.get(id);
    if (known === undefined || known.isHandedOut || !known.channel.isConnected) return undefined;
    known.isHandedOut = true;
    return known.channel;
  }

  /** Remembers a channel that was opened for another user, for short requests of our own. */
  remember(id: string, channel: RunnerChannel): void {
    this.#closeUnused(id);
    this.#known.set(id, { channel, isHandedOut: true });
  }

  /** A currently connected channel; the caller must not close it. */
  connected(id: string): RunnerChannel | undefined {
    const channel = this.#known.get(id)?.channel;
    return channel?.isConnected === true ? channel : undefined;
  }

  forget(id: string): void {
    this.#closeUnused(id);
    this.#known.delete(id);
  }

  #closeUnused(id: string): void {
    const known = this.#known.get(id);
    if (known?.isHandedOut === false) known.channel.close();
  }
}
