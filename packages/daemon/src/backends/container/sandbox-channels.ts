/** The channels into sandboxes that this process has opened, so that none is opened without need. */
import type { RunnerChannel } from "../../channel/runner-channel.ts";

interface Known {
  readonly channel: RunnerChannel;
  /** Its owner closes it. One that create opened is ours until it is first asked for. */
  isHandedOut: boolean;
}

export class SandboxChannels {
  readonly #known = new Map<string, Known>();

  /** Keeps the channel that create opened for whoever asks first. */
  keep(id: string, channel: RunnerChannel): void {
    this.#known.set(id, { channel, isHandedOut: false });
  }

  /** The channel that create opened, once, as long as it is connected. */
  handOut(id: string): RunnerChannel | undefined {
    const known = this.#known.get(id);
    if (known === undefined || known.isHandedOut || !known.channel.isConnected) return undefined;
    known.isHandedOut = true;
    return known.channel;
  }

  /** Remembers a channel that was opened for somebody else, for short questions of our own. */
  remember(id: string, channel: RunnerChannel): void {
    this.#closeUnused(id);
    this.#known.set(id, { channel, isHandedOut: true });
  }

  /** One that is connected now; it is not the caller's to close. */
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
