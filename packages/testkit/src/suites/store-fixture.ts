/** What the store suites need from a store. */
import type { SessionStore } from "../ports.ts";

export interface StoreFixture {
  /** New and empty. */
  readonly store: SessionStore;
  /** Sets the store's wall clock; for some stores, daemons report it. */
  readonly setWallMs: (wallMs: number) => void;
  /** Closes the store and reopens its data. */
  readonly reopen: () => Promise<SessionStore>;
  readonly close: () => Promise<void>;
}

/** The fixture of the running test. */
export type StoreFixtureOf = () => StoreFixture;
