/** What the suites of stores need of a store. */
import type { SessionStore } from "../ports.ts";

export interface StoreFixture {
  /** New and empty. */
  readonly store: SessionStore;
  /** Closes the store and opens its data anew. */
  readonly reopen: () => Promise<SessionStore>;
  readonly close: () => Promise<void>;
}

/** The fixture of the test that runs. */
export type StoreFixtureOf = () => StoreFixture;
