import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ALICES_KEY, HttpFixture, textUntilClose } from "../../../testing/http-fixture.ts";
import type { Answer } from "../../../testing/http-fixture.ts";

let http: HttpFixture;
let base: string;
beforeAll(async () => {
  http = await HttpFixture.start({ limits: { maxBodyBytes: 100_000, maxUploadBytes: 2_000_000 } });
  base = `/v1/sessions/${await http.createSession()}`;
});
afterAll(async () => await http[Symbol.asyncDispose]());

const PART_HEAD = '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n';

type Part = readonly [name: string, value: string | Uint8Array, fileName?: string];

async function upload(parts: readonly Part[], query = "", to = base): Promise<Answer> {
  const form = new FormData();
  for (const [name, value, fileName] of parts) {
    if (fileName === undefined) form.append(name, String(value));
    else form.append(name, new Blob([value]), fileName);
  }
  return await http.call(`${to}/fs/upload${query}`, { body: form });
}

async function contentOf(path: string, of = base): Promise<Buffer> {
  const response = await http.fetch(`${of}/fs/file?path=${encodeURIComponent(path)}`);
  expect(response.status).toBe(200);
  return Buffer.from(await response.arrayBuffer());
}

async function names(path: string): Promise<string[]> {
  const { json } = await http.call(`${base}/fs?path=${path}`);
  return (json.entries as { name: string }[]).map(({ name }) => name);
}

describe("POST fs/upload", () => {
  it("stores files in the workspace, byte for byte", async () => {
    const bytes = Buffer.alloc(1_500_000, Buffer.from([0, 255, 13, 10, 45, 45]));
    const answer = await upload([["file", bytes, "blob.bin"]]);
    expect(answer).toMatchObject({
      status: 200,
      json: { ok: true, paths: ["/workspace/blob.bin"] },
    });
    expect((await contentOf("blob.bin")).equals(bytes)).toBe(true);
    expect((await upload([["file", "", "empty"]])).json.paths).toEqual(["/workspace/empty"]);
    expect(await contentOf("empty")).toHaveLength(0);
  });

  it.each([
    [
      "before the files",
      [
        ["path", "/workspace/p1"],
        ["files", "1", "a"],
        ["files", "2", "b"],
      ],
      "",
      "/workspace/p1",
    ],
    [
      "after the files",
      [
        ["files", "1", "a"],
        ["files", "2", "b"],
        ["path", "/workspace/p2"],
      ],
      "",
      "/workspace/p2",
    ],
    [
      "in the query",
      [
        ["files", "1", "a"],
        ["file", "2", "b"],
      ],
      "?path=/workspace/p3",
      "/workspace/p3",
    ],
    [
      "relative",
      [
        ["files", "1", "a"],
        ["file", "2", "b"],
        ["path", "p4/deep"],
      ],
      "",
      "/workspace/p4/deep",
    ],
  ] as [string, Part[], string, string][])(
    "takes the directory %s",
    async (_name, parts, query, directory) => {
      const answer = await upload(parts, query);
      expect(answer.json).toEqual({ ok: true, paths: [`${directory}/a`, `${directory}/b`] });
      expect(String(await contentOf(`${directory}/b`))).toBe("2");
      expect((await names("/workspace")).filter((name) => name.startsWith(".upload"))).toEqual([]);
    },
  );

  it("works on workspaces, which it creates", async () => {
    const to = "/v1/workspaces/uploaded";
    expect((await upload([["file", "x", "f"]], "", to)).json).toEqual({
      ok: true,
      paths: ["/workspace/f"],
    });
    expect(String(await contentOf("f", to))).toBe("x");
  });

  it.each([
    ["../../etc/passwd", "passwd"],
    ["..\\..\\evil.exe", "evil.exe"],
    ["/abs/olute", "olute"],
    ["a b ü.txt", "a b ü.txt"],
  ])("reduces the name %j to its last part", async (fileName, name) => {
    const answer = await upload([["file", "x", fileName]], "?path=/workspace/names");
    expect(answer.json.paths).toEqual([`/workspace/names/${name}`]);
  });

  it.each([
    ["no file", [["path", "/workspace"]]],
    ["a file without a name", [["file", "x"]]],
    ["a name that is no name", [["file", "x", ".."]]],
    ["a field that is not known", [["other", "x", "a"]]],
    [
      "two different directories",
      [
        ["path", "a"],
        ["path", "b"],
        ["file", "x", "a"],
      ],
    ],
  ] as [string, Part[]][])("refuses %s", async (_name, parts) => {
    expect(await upload(parts)).toMatchObject({
      status: 400,
      json: { error_code: "INVALID_REQUEST" },
    });
  });

  it("refuses invalid forms", async () => {
    for (const type of [
      "application/json",
      "multipart/form-data",
      "text/plain",
      "multipart/form-data; boundary=x",
    ]) {
      const answer = await http.call(`${base}/fs/upload`, {
        body: "{}",
        headers: { "content-type": type },
      });
      expect(answer).toMatchObject({ status: 400, json: { error_code: "INVALID_REQUEST" } });
    }
    expect((await http.call(`${base}/fs/upload`, { method: "POST" })).status).toBe(400);
  });

  it.each([
    ["a part whose head has no end", `${PART_HEAD}--x--\r\n`],
    ["a part whose head runs into its content", `${PART_HEAD}content\r\n--x--\r\n`],
    ["a part that never ends", `${PART_HEAD}\r\ncontent`],
    ["half of a head", "--x\r\nContent-Dis"],
    ["no boundary", "hello"],
  ])("returns an error for a form with %s, and can be stopped", async (_name, body) => {
    await using own = await HttpFixture.start();
    const id = await own.createSession();
    const answer = await own.call(`/v1/sessions/${id}/fs/upload`, {
      body,
      headers: { "content-type": "multipart/form-data; boundary=x" },
    });
    expect(answer).toMatchObject({ status: 400, json: { error_code: "INVALID_REQUEST" } });
    await own.app.close();
  });

  it.each([
    ["in the head of a part", "--x\r\nContent-Dis"],
    ["between two parts", `${PART_HEAD}\r\nabc\r\n--x`],
  ])("aborts a form that stops arriving %s", async (_name, body) => {
    await using own = await HttpFixture.start({ stallTimeoutMs: 200 });
    const id = await own.createSession();
    const socket = await own.connect();
    socket.write(
      `POST /v1/sessions/${id}/fs/upload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${ALICES_KEY}\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000\r\n\r\n${body}`,
    );
    const answer = await textUntilClose(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toContain("the body stalled");
  });

  it("leaves nothing under a temporary name if a file cannot get its own", async () => {
    await http.call(`${base}/fs/mkdir`, { body: { path: "taken" } });
    const parts = ["first", "taken", "last"].map((name): Part => ["file", name, name]);
    const answer = await upload(parts);
    expect(answer).toMatchObject({ status: 400, json: { error_code: "NOT_A_FILE" } });
    const left = (await names("/workspace")).filter((name) => name.startsWith("."));
    expect(left).toEqual([]);
  });

  it("refuses more than allowed, in one file or in all of them, and leaves nothing incomplete", async () => {
    await upload([["file", "old", "kept"]]);
    const large = Buffer.alloc(1_100_000);
    const tries = [
      await upload([["file", Buffer.alloc(2_100_000), "kept"]]),
      await upload(
        [
          ["file", large, "first"],
          ["file", large, "kept"],
        ],
        "?path=/workspace",
      ),
      await upload([
        ["file", large, "first"],
        ["file", large, "kept"],
      ]),
      await upload([["file", Buffer.alloc(4_000_000), "kept"]]),
    ];
    for (const answer of tries)
      expect(answer).toMatchObject({ status: 413, json: { error_code: "PAYLOAD_TOO_LARGE" } });
    expect(String(await contentOf("kept"))).toBe("old");
    expect((await names("/workspace")).filter((name) => name.startsWith(".upload"))).toEqual([]);
  });

  it.each([
    ["is cut off in the middle of a file", (body: string) => body.slice(0, 150), 400],
    ["ends without its last boundary", (body: string) => body.slice(0, -20), 400],
  ])("keeps the old file if a form %s", async (_name, cut, status) => {
    await upload([["file", "old", "kept"]]);
    const content = `--b\r\nContent-Disposition: form-data; name="file"; filename="kept"\r\n\r\n${"n".repeat(500)}\r\n--b--\r\n`;
    const answer = await http.call(`${base}/fs/upload?path=/workspace`, {
      body: cut(content),
      headers: { "content-type": "multipart/form-data; boundary=b" },
    });
    expect(answer.status).toBe(status);
    expect(String(await contentOf("kept"))).toBe("old");
  });

  it("keeps the old file if the client leaves in the middle", async () => {
    await upload([["file", "old", "kept"]]);
    const socket = await http.connect();
    socket.write(
      `POST ${base}/fs/upload?path=/workspace HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${ALICES_KEY}\r\nX-Request-ID: gone\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n` +
        `--b\r\nContent-Disposition: form-data; name="file"; filename="kept"\r\n\r\n${"n".repeat(5000)}`,
    );
    await new Promise((resolve) => setTimeout(resolve, 20));
    socket.destroy();
    while (!http.logLines.some((line) => line.includes('"gone"'))) await new Promise(setImmediate);
    expect(String(await contentOf("kept"))).toBe("old");
  });
});
