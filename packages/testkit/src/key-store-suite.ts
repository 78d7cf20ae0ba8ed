/** The conformance suite of the `KeyStore` port: every key store passes it. */
import { beforeEach, describe, expect, it } from "vitest";
import type { KeyRow, KeyStore } from "./ports.ts";

export interface KeyStoreFixture {
  /** New and empty. */
  readonly store: KeyStore;
  /** Closes the store and reopens its data. */
  readonly reopen: () => Promise<KeyStore>;
}

export const keyRow = (number: number, more: Partial<KeyRow> = {}): KeyRow => ({
  id: `key_${number}`,
  name: `name-${number}`,
  owner: "team",
  scope: "use",
  digest: String(number).repeat(64),
  createdAtMs: number,
  ...more,
});

export function keyStoreSuite(name: string, makeFixture: () => Promise<KeyStoreFixture>): void {
  describe(`keys in ${name}`, () => {
    let fixture: KeyStoreFixture;
    beforeEach(async () => {
      fixture = await makeFixture();
    });

    it("are unchanged after a restart, oldest first", async () => {
      const limits = { maxSessions: 1, maxRunningExecs: 2, maxImageBytes: 3 };
      const full = keyRow(2, { scope: "admin", expiresAtMs: 99.5, ...limits });
      await fixture.store.insert(full);
      await fixture.store.insert(keyRow(1, { scope: "read" }));
      const store = await fixture.reopen();
      expect(await store.list()).toEqual([keyRow(1, { scope: "read" }), full]);
    });

    it("stay revoked since the first time, also after a restart", async () => {
      await fixture.store.insert(keyRow(1));
      expect(await fixture.store.revoke("key_1", 10)).toEqual({
        row: keyRow(1, { revokedAtMs: 10 }),
        isNew: true,
      });
      expect(await fixture.store.revoke("key_1", 20)).toEqual({
        row: keyRow(1, { revokedAtMs: 10 }),
        isNew: false,
      });
      expect(await fixture.store.revoke("key_2", 20)).toBeUndefined();
      const store = await fixture.reopen();
      expect(await store.list()).toEqual([keyRow(1, { revokedAtMs: 10 })]);
    });

    it("keep the latest reported time of use", async () => {
      await fixture.store.insert(keyRow(1));
      await fixture.store.insert(keyRow(2));
      await fixture.store.touch(new Map([["key_1", 50]]));
      await fixture.store.touch(
        new Map([
          ["key_1", 40],
          ["key_2", 60],
          ["key_gone", 70],
        ]),
      );
      expect((await fixture.store.list()).map(({ lastUsedAtMs }) => lastUsedAtMs)).toEqual([
        50, 60,
      ]);
    });

    it("are deleted only if they were revoked before", async () => {
      for (const number of [1, 2, 3]) await fixture.store.insert(keyRow(number));
      await fixture.store.revoke("key_1", 10);
      await fixture.store.revoke("key_2", 20);
      await fixture.store.forgetRevokedBefore(20);
      expect((await fixture.store.list()).map(({ id }) => id)).toEqual(["key_2", "key_3"]);
    });
  });
}
