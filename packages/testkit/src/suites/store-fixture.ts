/** What the suites of stores need of a store. */
import type { SessionStore } from "../ports.ts";

export interface StoreFixture {
  /** New and empty. */
  readonly store: SessionStore;
  /** What the store takes for the time on the wall; daemons say it to some stores. */
  readonly setWallMs: (wallMs: number) => void;
  /** Closes the store and opens its data anew. */
  readonly reopen: () => Promise<SessionStore>;
  readonly close: () => Promise<void>;
}

/** The fixture of the test that runs. */
export type StoreFixtureOf = () => StoreFixture;
