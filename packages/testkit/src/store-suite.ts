/** The conformance suite of the `SessionStore` port: every store passes it. */
import { afterEach, beforeEach, describe } from "vitest";
import { storeExecSuite } from "./suites/store-execs.ts";
import type { StoreFixture, StoreFixtureOf } from "./suites/store-fixture.ts";
import { storeListSuite } from "./suites/store-lists.ts";
import { FIRST_READING, storeOwnershipSuite } from "./suites/store-ownership.ts";
import { storeQuotaSuite } from "./suites/store-quotas.ts";
import { storeRestartSuite } from "./suites/store-restart.ts";
import { storeSessionSuite } from "./suites/store-sessions.ts";
import { storeTimeSuite } from "./suites/store-time.ts";
import { storeWorkspaceSuite } from "./suites/store-workspaces.ts";

export type { StoreFixture } from "./suites/store-fixture.ts";
export { execRow, FENCE, MANY, sessionRow, workspaceRow } from "./suites/store-rows.ts";

export function storeSuite(name: string, makeFixture: () => Promise<StoreFixture>): void {
  const parts: [string, (fixture: StoreFixtureOf) => void][] = [
    ["sessions", storeSessionSuite],
    ["lists", storeListSuite],
    ["commands", storeExecSuite],
    ["workspaces", storeWorkspaceSuite],
    ["ownership", storeOwnershipSuite],
    ["time", storeTimeSuite],
    ["quotas", storeQuotaSuite],
    ["a restart", storeRestartSuite],
  ];
  describe(`${name} as a session store`, () => {
    let fixture: StoreFixture | undefined;
    beforeEach(async () => {
      fixture = await makeFixture();
      await fixture.store.join(undefined, FIRST_READING);
    });
    afterEach(async () => {
      await fixture?.close();
      fixture = undefined;
    });
    const current = (): StoreFixture => {
      if (fixture === undefined) throw new Error("the store of this suite could not be created");
      return fixture;
    };

    describe.each(parts)("%s", (_, part) => {
      part(current);
    });
  });
}
