/** How sessions and commands are listed: filters, order and cursors. */
import { expect, it } from "vitest";
import type { Page, SessionFilter, SessionRow, SessionStore } from "../ports.ts";
import { withCode } from "./run-command.ts";
import type { StoreFixtureOf } from "./store-fixture.ts";
import { FENCE, MANY, execRow, sessionRow } from "./store-rows.ts";

interface Identified {
  readonly id: string;
}

/** The ids of all pages, page by page. */
async function idsOf(
  page: (cursor: { readonly cursor?: string }) => Promise<Page<Identified>>,
): Promise<string[][]> {
  const pages: string[][] = [];
  let next: string | undefined;
  do {
    const { rows, nextCursor } = await page(next === undefined ? {} : { cursor: next });
    pages.push(rows.map(({ id }) => id));
    next = nextCursor;
  } while (next !== undefined);
  return pages;
}

export function storeListSuite(fixture: StoreFixtureOf): void {
  const store = (): SessionStore => fixture().store;

  async function insertAll(rows: readonly Partial<SessionRow>[]): Promise<void> {
    for (const row of rows) await store().insertSession(sessionRow(row), MANY);
  }
  const listed = async (filter: Partial<SessionFilter>): Promise<string[]> =>
    (
      await idsOf((at) => store().listSessions({ owner: "alice", limit: 100, ...filter, ...at }))
    ).flat();

  it("lists sessions newest first, and those of one moment by their ids", async () => {
    await insertAll([
      { id: "b", createdAtMs: 20 },
      { id: "a", createdAtMs: 30.5 },
      { id: "d", createdAtMs: 20 },
      { id: "c", createdAtMs: 20 },
      { id: "e", createdAtMs: 10 },
      { id: "other", createdAtMs: 25, owner: "bob" },
    ]);
    const pages = await idsOf((at) => store().listSessions({ owner: "alice", limit: 2, ...at }));
    expect(pages).toEqual([["a", "d"], ["c", "b"], ["e"]]);
  });

  it("lists the sessions of all owners if none is named", async () => {
    await insertAll([
      { id: "b", createdAtMs: 20, owner: "bob" },
      { id: "ended", createdAtMs: 40, owner: "carol", status: "destroyed" },
      { id: "a", createdAtMs: 10 },
      { id: "c", createdAtMs: 30, owner: "carol" },
    ]);
    const pages = await idsOf((at) => store().listSessions({ limit: 3, ...at }));
    expect(pages).toEqual([["c", "b", "a"], ["ended"]]);
    expect((await store().listSessions({ limit: 9, status: "destroyed" })).rows).toHaveLength(1);
  });

  it("lists the sessions that have not ended first, whatever the size of the page", async () => {
    await insertAll([
      { id: "old", createdAtMs: 10 },
      { id: "paused", createdAtMs: 20, status: "paused" },
      { id: "ended", createdAtMs: 30, status: "destroyed" },
      { id: "expired", createdAtMs: 40, status: "expired" },
      { id: "making", createdAtMs: 50, status: "creating" },
      { id: "failed", createdAtMs: 60, status: "failed" },
      { id: "going", createdAtMs: 70, status: "destroying" },
    ]);
    for (const limit of [1, 2, 3, 4, 100]) {
      const pages = await idsOf((at) => store().listSessions({ owner: "alice", limit, ...at }));
      expect(pages.flat()).toEqual([
        "going",
        "making",
        "paused",
        "old",
        "failed",
        "expired",
        "ended",
      ]);
    }
  });

  it("has no cursor after the last page, even if that page is full", async () => {
    await insertAll([{ id: "a" }, { id: "b" }]);
    const page = await store().listSessions({ owner: "alice", limit: 2 });
    expect(page).not.toHaveProperty("nextCursor");
    expect(await store().listSessions({ owner: "nobody", limit: 2 })).toEqual({ rows: [] });
  });

  it("neither repeats nor omits a session if others are created and end between pages", async () => {
    await insertAll(
      ["a", "b", "c", "d"].map((id, at) => ({ id, createdAtMs: 100 - at, endedAtMs: at })),
    );
    const first = await store().listSessions({ owner: "alice", limit: 2 });
    expect(first.rows.map(({ id }) => id)).toEqual(["a", "b"]);
    await insertAll([{ id: "new", createdAtMs: 200 }]);
    await store().updateSession("b", FENCE, ["running"], { status: "destroyed", endedAtMs: 0 });
    expect(await store().forgetSessionsEndedBefore(1)).toEqual(["b"]);
    const cursor = first.nextCursor ?? "";
    const second = await store().listSessions({ owner: "alice", limit: 2, cursor });
    expect(second.rows.map(({ id }) => id)).toEqual(["c", "d"]);
  });

  it("filters by status and by key", async () => {
    await insertAll([
      { id: "a", key: "user:a:default", status: "destroyed" },
      { id: "b", key: "user:a:default", status: "paused" },
      { id: "c", key: "user:c:default", status: "paused" },
    ]);
    expect(await listed({ status: "paused" })).toEqual(["c", "b"]);
    expect(await listed({ key: "user:a:default" })).toEqual(["b", "a"]);
    expect(await listed({ key: "user:a:default", status: "paused" })).toEqual(["b"]);
    expect(await listed({ status: "failed" })).toEqual([]);
  });

  it("filters by metadata, all of which must match", async () => {
    await insertAll([
      { id: "a", metadata: { team: "x", stage: "1" } },
      { id: "b", metadata: { team: "x", stage: "2" } },
      { id: "c", metadata: { team: "y", "a.b": `it's "quoted"`, $: "%" } },
      { id: "d" },
    ]);
    expect(await listed({ metadata: { team: "x" } })).toEqual(["b", "a"]);
    expect(await listed({ metadata: { team: "x", stage: "1" } })).toEqual(["a"]);
    expect(await listed({ metadata: { "a.b": `it's "quoted"`, $: "%" } })).toEqual(["c"]);
    expect(await listed({ metadata: { team: "X" } })).toEqual([]);
    expect(await listed({ metadata: { stage: "1", absent: "" } })).toEqual([]);
    expect(await listed({ metadata: {} })).toEqual(["d", "c", "b", "a"]);
  });

  it("fills a page with matching sessions, however rare they are", async () => {
    await insertAll(
      Array.from({ length: 60 }, (_, i) => ({
        id: `s${String(i).padStart(2, "0")}`,
        createdAtMs: i,
        metadata: { rare: String(i % 20 === 0) },
      })),
    );
    const pages = await idsOf((at) =>
      store().listSessions({ owner: "alice", metadata: { rare: "true" }, limit: 2, ...at }),
    );
    expect(pages).toEqual([["s40", "s20"], ["s00"]]);
  });

  it("lists the commands of one session newest first, page by page", async () => {
    await insertAll([{ id: "s1" }, { id: "s2" }]);
    for (const id of ["t1", "t4", "t2", "t3"])
      await store().insertExec(execRow("s1", { id }), FENCE, MANY);
    await store().insertExec(execRow("s2", { id: "t5" }), FENCE, MANY);
    expect(await idsOf((at) => store().listExecs("s1", { limit: 3, ...at }))).toEqual([
      ["t4", "t3", "t2"],
      ["t1"],
    ]);
    expect(await store().listExecs("s3", { limit: 3 })).toEqual({ rows: [] });
  });

  it.each([
    ["empty", ""],
    ["no base64", "§§§"],
    ["no JSON", Buffer.from("{").toString("base64url")],
    ["something else", Buffer.from('{"id":"a"}').toString("base64url")],
    ["of the wrong types", Buffer.from('["a",1]').toString("base64url")],
  ])("refuses a cursor that is %s", async (_, cursor) => {
    const refusal = withCode("INVALID_REQUEST");
    await expect(store().listSessions({ owner: "alice", limit: 1, cursor })).rejects.toMatchObject(
      refusal,
    );
    await expect(store().listExecs("s", { limit: 1, cursor })).rejects.toMatchObject(refusal);
  });
}
