/** Every route that changes files records an event. A new route must be in one of the two lists here. */
import { writeTar } from "@sandkasten/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { HttpFixture } from "../../../testing/http-fixture.ts";
import type { Call } from "../../../testing/http-fixture.ts";
import { parseEvents } from "../../../testing/read-events.ts";
import type { OpenApiDocument } from "../../openapi/openapi.ts";

interface Change extends Call {
  readonly query?: string;
  /** The path in its event. */
  readonly path: string;
}

function form(): FormData {
  const body = new FormData();
  body.set("file", new Blob(["x"]), "uploaded");
  return body;
}

/** Below the session or workspace, which has a file `/workspace/old`. */
const CHANGES: Readonly<Record<string, readonly Change[]>> = {
  "POST /fs/write": [
    { body: { path: "new", text: "x" }, path: "/workspace/new" },
    { body: { path: "old", text: "x", append: true }, path: "/workspace/old" },
  ],
  "PUT /fs/file": [
    { query: "?path=new", body: "x", path: "/workspace/new" },
    { query: "?path=old&append=true", body: "x", path: "/workspace/old" },
  ],
  "POST /fs/upload": [{ body: form(), path: "/workspace/uploaded" }],
  "PUT /fs/tar": [
    {
      body: writeTar([{ path: "packed", type: "file", bytes: Buffer.from("x") }]),
      path: "/workspace",
    },
  ],
  "POST /fs/mkdir": [{ body: { path: "directory" }, path: "/workspace/directory" }],
  "POST /fs/copy": [{ body: { from: "old", to: "copy" }, path: "/workspace/copy" }],
  "POST /fs/move": [{ body: { from: "old", to: "moved" }, path: "/workspace/moved" }],
  "DELETE /fs": [{ query: "?path=old", path: "/workspace/old" }],
};

/** Routes that change no files, or only through commands. */
const OTHERS: ReadonlySet<string> = new Set([
  "DELETE /v1/sessions/{id}",
  "POST /v1/sessions/{id}/pause",
  "POST /v1/sessions/{id}/resume",
  "POST /v1/sessions/{id}/renew",
  "POST /v1/sessions/{id}/commit",
  "POST /v1/sessions/{id}/exec",
  "POST /v1/sessions/{id}/exec/stream",
  "POST /v1/sessions/{id}/execs",
  "POST /v1/sessions/{id}/execs/{eid}/wait",
  "POST /v1/sessions/{id}/execs/{eid}/signal",
  "POST /v1/sessions/{id}/execs/{eid}/cancel",
  "POST /v1/sessions/{id}/execs/{eid}/stdin",
  "POST /v1/sessions/{id}/execs/{eid}/resize",
  "DELETE /v1/sessions/{id}/shells/{name}",
  "POST /v1/sessions/{id}/ports/{port}/url",
  "PUT /v1/sessions/{id}/network",
  "PUT /v1/workspaces/{id}",
  "DELETE /v1/workspaces/{id}",
]);

const SPACES = ["/v1/sessions/{id}", "/v1/workspaces/{id}"];
const READS = ["GET", "HEAD"];
const POLL = { timeout: 10_000 };

let http: HttpFixture;
let workspaces = 0;
beforeAll(async () => {
  http = await HttpFixture.start();
});
afterAll(async () => await http[Symbol.asyncDispose]());

async function changesIn(id: string): Promise<unknown[]> {
  const { text } = await http.call("/v1/events?types=file.changed&from=start&follow=false");
  return parseEvents(text)
    .filter(({ data }) => data.session_id === id || data.data?.workspace_id === id)
    .map(({ data }) => data.data as unknown);
}

async function check(space: string, route: string, change: Change): Promise<void> {
  const isSession = space.startsWith("/v1/sessions");
  const id = isSession ? await http.createSession() : `events-${++workspaces}`;
  const base = space.replace("{id}", id);
  await http.call(`${base}/fs/write`, { body: { path: "old", text: "old" } });
  await expect.poll(async () => await changesIn(id), POLL).toHaveLength(1);
  const [method = "", path = ""] = route.split(" ");
  const answer = await http.call(`${base}${path}${change.query ?? ""}`, { ...change, method });
  expect([space, route, answer.status]).toEqual([space, route, expect.toBeOneOf([200, 201])]);
  await expect
    .poll(async () => await changesIn(id), { ...POLL, message: `${space} ${route}` })
    .toHaveLength(2);
  const told = (await changesIn(id)).at(-1);
  const more = isSession ? {} : { workspace_id: id };
  expect(told).toMatchObject({
    paths: expect.arrayContaining([change.path]),
    more: false,
    ...more,
  });
}

it("every route that changes files of a session or a workspace records one event", async () => {
  const { paths } = (await http.call("/openapi.json")).json as OpenApiDocument;
  const routes = SPACES.flatMap((space) =>
    Object.entries(paths)
      .filter(([path]) => path === space || path.startsWith(`${space}/`))
      .flatMap(([path, methods]) =>
        Object.keys(methods).map((method) => ({ space, path, method: method.toUpperCase() })),
      )
      .filter(({ method, path }) => !READS.includes(method) && !OTHERS.has(`${method} ${path}`)),
  );
  const changes = routes.flatMap(({ space, path, method }) => {
    const route = `${method} ${path.slice(space.length)}`;
    const listed = CHANGES[route];
    if (listed === undefined) throw new Error(`no list here has ${method} ${path}`);
    return listed.map((change) => ({ space, route, change }));
  });
  expect(changes).toHaveLength(SPACES.length * Object.values(CHANGES).flat().length);
  // No more at once than event streams may be open.
  const workers = Array.from({ length: 12 }, async () => {
    for (let next = changes.shift(); next !== undefined; next = changes.shift())
      await check(next.space, next.route, next.change);
  });
  await Promise.all(workers);
});
