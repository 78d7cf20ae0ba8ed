/** A followed event stream of a daemon, which can end at any moment and be resumed elsewhere. */
import type { TestDaemon } from "./test-daemon.ts";

export interface FeedEvent {
  readonly id: string;
  readonly type: string;
  readonly session_id?: string;
  readonly data: { readonly exec_id?: string };
}

export class FollowedEvents {
  /** All events so far, from all streams. */
  readonly events: FeedEvent[] = [];
  /** Events other than those of the feed: `gap`, for one. */
  readonly others: string[] = [];
  readonly #path: string;
  #gone = new AbortController();
  #reading: Promise<void> = Promise.resolve();

  constructor(path: string) {
    this.#path = path;
  }

  /** Follows from the last event that was seen, or else from the oldest. */
  async follow(daemon: TestDaemon): Promise<void> {
    const last = this.events.at(-1)?.id;
    this.#gone = new AbortController();
    const stream = await daemon.fetch(`${this.#path}?from=start`, {
      signal: this.#gone.signal,
      headers: last === undefined ? {} : { "last-event-id": last },
    });
    if (!stream.ok) throw new Error(`no events: ${stream.status} ${await stream.text()}`);
    // The stream ends when its daemon does.
    this.#reading = this.#read(stream).catch(() => undefined);
  }

  async stop(): Promise<void> {
    this.#gone.abort();
    await this.#reading;
  }

  /** The types of one session's events, in order. */
  typesOf(sessionId: string): readonly string[] {
    return this.events.filter(({ session_id }) => session_id === sessionId).map(({ type }) => type);
  }

  async #read(stream: Response): Promise<void> {
    const decoder = new TextDecoder();
    let text = "";
    for await (const piece of stream.body as unknown as AsyncIterable<Uint8Array>) {
      text += decoder.decode(piece, { stream: true });
      const messages = text.split("\n\n");
      text = messages.pop() ?? "";
      for (const message of messages) this.#take(message);
    }
  }

  #take(message: string): void {
    const kind = /^event: (.*)$/mu.exec(message)?.[1] ?? "";
    const data = /^data: (.*)$/mu.exec(message)?.[1] ?? "";
    if (kind === "event") this.events.push(JSON.parse(data) as FeedEvent);
    else if (kind !== "ready" && kind !== "done" && kind !== "") this.others.push(kind);
  }
}
