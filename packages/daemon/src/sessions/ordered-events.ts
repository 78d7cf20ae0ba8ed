/** Tells the events of one session in the order in which things happened. */
import type { Events, Happening } from "../events/recorder.ts";

interface Place {
  happening: Happening | undefined;
  isReady: boolean;
}

/** A place among the events of a session. Dispose of it, whether it was filled or not. */
export interface ReservedPlace extends Disposable {
  fill(happening: Happening): void;
}

export class OrderedEvents implements Events {
  readonly #events: Events;
  readonly #waiting: Place[] = [];

  constructor(events: Events) {
    this.#events = events;
  }

  /** Tells of it when everything before it is told. */
  tell(happening: Happening): void {
    if (this.#waiting.length === 0) this.#events.tell(happening);
    else this.#waiting.push({ happening, isReady: true });
  }

  /** For the session's end, when nothing waits any more. */
  async tellNow(happening: Happening): Promise<void> {
    await this.#events.tellNow(happening);
  }

  /** For what has happened, but must be stored before it is told. Later events wait for it. */
  reserve(): ReservedPlace {
    const place: Place = { happening: undefined, isReady: false };
    this.#waiting.push(place);
    return {
      fill: (happening) => {
        place.happening = happening;
      },
      [Symbol.dispose]: () => {
        place.isReady = true;
        this.#tellReady();
      },
    };
  }

  #tellReady(): void {
    while (this.#waiting[0]?.isReady === true) {
      const happening = this.#waiting.shift()?.happening;
      if (happening !== undefined) this.#events.tell(happening);
    }
  }
}
