/** Records the events of one session in the order in which they happened. */
import type { Events, ReportedEvent } from "../events/recorder.ts";

interface Place {
  event: ReportedEvent | undefined;
  isReady: boolean;
}

/** A place among the events of a session. Dispose of it, whether it was filled or not. */
export interface ReservedPlace extends Disposable {
  fill(event: ReportedEvent): void;
}

export class OrderedEvents implements Events {
  readonly #events: Events;
  readonly #waiting: Place[] = [];

  constructor(events: Events) {
    this.#events = events;
  }

  /** Records the event after all earlier ones. */
  record(event: ReportedEvent): void {
    if (this.#waiting.length === 0) this.#events.record(event);
    else this.#waiting.push({ event, isReady: true });
  }

  /** For the session's end, when no other event waits. */
  async recordNow(event: ReportedEvent): Promise<void> {
    await this.#events.recordNow(event);
  }

  /** For a change that must be stored before its event is recorded. Later events wait for it. */
  reserve(): ReservedPlace {
    const place: Place = { event: undefined, isReady: false };
    this.#waiting.push(place);
    return {
      fill: (event) => {
        place.event = event;
      },
      [Symbol.dispose]: () => {
        place.isReady = true;
        this.#recordReady();
      },
    };
  }

  #recordReady(): void {
    while (this.#waiting[0]?.isReady === true) {
      const event = this.#waiting.shift()?.event;
      if (event !== undefined) this.#events.record(event);
    }
  }
}
