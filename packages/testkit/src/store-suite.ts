/** The conformance suite of the `SessionStore` port: every store passes it. */
import { afterEach, beforeEach, describe } from "vitest";
import { storeExecSuite } from "./suites/store-execs.ts";
import type { StoreFixture, StoreFixtureOf } from "./suites/store-fixture.ts";
import { storeListSuite } from "./suites/store-lists.ts";
import { storeRestartSuite } from "./suites/store-restart.ts";
import { storeSessionSuite } from "./suites/store-sessions.ts";
import { storeWorkspaceSuite } from "./suites/store-workspaces.ts";

export type { StoreFixture } from "./suites/store-fixture.ts";
export { execRow, sessionRow } from "./suites/store-rows.ts";

export function storeSuite(name: string, makeFixture: () => Promise<StoreFixture>): void {
  const parts: [string, (fixture: StoreFixtureOf) => void][] = [
    ["sessions", storeSessionSuite],
    ["lists", storeListSuite],
    ["commands", storeExecSuite],
    ["workspaces", storeWorkspaceSuite],
    ["a restart", storeRestartSuite],
  ];
  describe(`${name} as a session store`, () => {
    let fixture: StoreFixture | undefined;
    beforeEach(async () => {
      fixture = await makeFixture();
    });
    afterEach(async () => {
      await fixture?.close();
      fixture = undefined;
    });
    const current = (): StoreFixture => {
      if (fixture === undefined) throw new Error("the store of this suite could not be made");
      return fixture;
    };

    describe.each(parts)("%s", (_, part) => {
      part(current);
    });
  });
}
