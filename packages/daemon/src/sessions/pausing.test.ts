/** Pausing if the backend and the store fail. */
import { SandboxError } from "@sandkasten/protocol";
import { afterEach, expect, it } from "vitest";
import type { Backend } from "../ports/backend.ts";
import type { SessionStore } from "../ports/session-store.ts";
import { ALICE, CoreFixture, overriding } from "./testing/core-fixture.ts";

let fixture: CoreFixture;
afterEach(async () => await fixture[Symbol.asyncDispose]());

it("a session can be used and destroyed after the store kept the status of a failed pause", async () => {
  let isDown = false;
  fixture = await CoreFixture.start({
    wrap: (backend: Backend) =>
      overriding(backend, {
        pause: async () => {
          isDown = true;
          throw new SandboxError("SANDBOX_UNREACHABLE", "the engine is gone");
        },
      }),
    wrapStore: (store: SessionStore) =>
      overriding(store, {
        updateSession: async (...change) => {
          if (isDown) throw new SandboxError("SANDBOX_UNREACHABLE", "the store is gone");
          return await store.updateSession(...change);
        },
      }),
  });
  const { sessions } = fixture.core;
  const { id } = (await sessions.create(ALICE, {})).session;
  await expect(sessions.pause(ALICE, id)).rejects.toThrow("gone");
  isDown = false;
  expect(await fixture.store.getSession(id)).toMatchObject({ status: "paused" });
  expect((await fixture.run(id, "echo here")).output).toBe("here\n");
  await sessions.destroy(ALICE, id);
  expect(await fixture.store.getSession(id)).toMatchObject({ status: "destroyed" });
  expect(fixture.machine.sandboxes.size).toBe(0);
});
