import { afterEach, expect, test } from "vitest";
import type { FileChange } from "../../../../ports/channel.ts";
import type { OpenFiles } from "../../../../sessions/services/file-service.ts";
import { HttpFixture } from "../../../testing/http-fixture.ts";

const WATCHES = 4;
const CHANGES = 3_000;

let http: HttpFixture;
afterEach(async () => await http[Symbol.asyncDispose]());

test("watches take turns, so floods of changes leave time for other requests", async () => {
  let sent = 0;
  async function* flood(): AsyncGenerator<FileChange, void> {
    for (let count = 0; count < CHANGES; count++) {
      sent += 1;
      yield await Promise.resolve({ kind: "modify", path: `/workspace/${count}` });
    }
  }
  const files: Partial<OpenFiles> = {
    watch: () => Promise.resolve(flood()),
    [Symbol.dispose]: () => undefined,
  };
  http = await HttpFixture.start({
    unchecked: true,
    replace: { files: { open: () => Promise.resolve(files as OpenFiles) } },
  });
  const id = await http.createSession();
  let mostInTurn = 0;
  let counted = 0;
  const look = (): void => {
    mostInTurn = Math.max(mostInTurn, sent - counted);
    counted = sent;
    if (sent < WATCHES * CHANGES) setImmediate(look);
  };
  setImmediate(look);
  const texts = await Promise.all(
    Array.from({ length: WATCHES }, () => http.call(`/v1/sessions/${id}/fs/watch`)),
  );
  for (const { text } of texts) expect(text.match(/^event: change$/gm)).toHaveLength(CHANGES);
  // In the worst case, all of them start in one turn.
  expect(mostInTurn).toBeLessThanOrEqual((WATCHES + 1) * 100);
});
