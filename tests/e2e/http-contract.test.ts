/**
 * What clients of this API found broken elsewhere, over real HTTP with a real daemon and real
 * sandboxes.
 */
import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TestDaemon } from "../support/test-daemon.ts";

const HUNDRED_MB = 100_000_000;

let daemon: TestDaemon;
let id: string;
beforeAll(async () => {
  daemon = await TestDaemon.start({ settings: { DEFAULTS_DISK_LIMIT_MB: "256" } });
  id = await daemon.open();
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
});

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const error = (error_code: string) => ({ error_code, request_id: expect.any(String) });

interface SseEvent {
  readonly event: string;
  readonly data: Record<string, unknown>;
}

async function* events(response: Response): AsyncGenerator<SseEvent> {
  let text = "";
  if (response.body === null) throw new Error("no body");
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    text += part;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const field = (name: string): string =>
        lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? "";
      if (field("event") !== "")
        yield { event: field("event"), data: JSON.parse(field("data")) as Record<string, unknown> };
    }
  }
}

describe("sessions", () => {
  it("are created with all fields that clients expect", async () => {
    const { status, body } = await daemon.call("POST", "/v1/sessions", {
      image: "host",
      ttl_seconds: 600,
      metadata: { purpose: "contract" },
    });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      id: expect.stringMatching(/^ses_/),
      image: "host",
      status: "running",
      cwd: "/workspace",
      acquire_source: "cold",
      ttl_seconds: 600,
    });
    const lease = Date.parse(String(body["expires_at"])) - Date.parse(String(body["created_at"]));
    expect(Math.abs(lease - 600_000)).toBeLessThan(5000);
    const { body: listed } = await daemon.call<{ id: string }[]>("GET", "/v1/sessions?limit=1");
    expect(listed.map((session) => session.id)).toEqual([body["id"]]);
    const { body: stats } = await daemon.call("GET", `/v1/sessions/${String(body["id"])}/stats`);
    expect(stats).toMatchObject({
      memory_limit: 128 * 1024 * 1024,
      cpu_usage_usec: expect.any(Number),
    });
    const deleted = await daemon.call("DELETE", `/v1/sessions/${String(body["id"])}`);
    expect(deleted).toMatchObject({ status: 200, body: { ok: true } });
  });

  it("can be destroyed twice, and unknown ones are 404 everywhere", async () => {
    const gone = await daemon.open();
    for (let times = 0; times < 2; times++)
      expect(await daemon.call("DELETE", `/v1/sessions/${gone}`)).toMatchObject({
        status: 200,
        body: { ok: true },
      });
    expect(await daemon.call("POST", `/v1/sessions/${gone}/exec`, { cmd: "true" })).toMatchObject({
      status: 404,
      body: error("SESSION_NOT_FOUND"),
    });
    for (const [method, path, body] of [
      ["DELETE", "", undefined],
      ["GET", "", undefined],
      ["POST", "/exec", { cmd: "true" }],
      ["GET", "/fs/read?path=x", undefined],
    ] as const)
      expect(await daemon.call(method, `/v1/sessions/nonexistent${path}`, body)).toMatchObject({
        status: 404,
        body: error("SESSION_NOT_FOUND"),
      });
  });

  it("honour their own time to live and return 410 afterwards", async () => {
    const short = await daemon.open({ ttl_seconds: 1 });
    await daemon.exec(short, "true");
    // The wait is intended: the lease is measured in real time here.
    await new Promise((resolve) => setTimeout(resolve, 1200));
    expect(await daemon.call("POST", `/v1/sessions/${short}/exec`, { cmd: "true" })).toMatchObject({
      status: 410,
      body: error("SESSION_EXPIRED"),
    });
  });

  it("with one key are one, however many requests arrive at once", async () => {
    const answers = await Promise.all(
      Array.from({ length: 50 }, () =>
        daemon.call<{ id: string }>("POST", "/v1/sessions", { key: "workflow:fifty" }),
      ),
    );
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    await daemon.call("DELETE", `/v1/sessions/${answers[0]?.body.id ?? ""}`);
  });
});

describe("exec", () => {
  it("keeps cd and export, and has no prompt in its output", async () => {
    await daemon.exec(id, "mkdir -p 'a b'; cd 'a b'; export KEPT='it is'; f() { echo fun; }");
    expect(await daemon.exec(id, "echo $KEPT; f; pwd")).toMatchObject({
      exit_code: 0,
      output: "it is\nfun\n/workspace/a b\n",
      cwd: "/workspace/a b",
      truncated: false,
    });
    await daemon.exec(id, "cd /workspace");
  });

  it("does not pass the rest of the script to a command as input", async () => {
    expect(await daemon.exec(id, "cat; echo after")).toMatchObject({ output: "after\n" });
    expect(await daemon.exec(id, "cat <<EOF\nnot closed")).toMatchObject({
      exit_code: 0,
      stdout: "not closed\n",
      end_reason: "exited",
    });
    expect(await daemon.exec(id, "cat; echo after", { stdin: "given " })).toMatchObject({
      output: "given after\n",
    });
  });

  it("returns a non-zero exit as a result", async () => {
    const answer = await daemon.call("POST", `/v1/sessions/${id}/exec`, { cmd: "(exit 7)" });
    expect(answer).toMatchObject({ status: 200, body: { exit_code: 7, end_reason: "exited" } });
  });

  it("ends a command at its timeout with everything it started, and the shell continues", async () => {
    await daemon.exec(id, "MARK=alive");
    const timeout = await daemon.call("POST", `/v1/sessions/${id}/exec`, {
      cmd: "echo partial; (setsid sleep 4321 &); sleep 4321",
      timeout_ms: 1_500,
    });
    expect(timeout).toMatchObject({
      status: 504,
      body: { ...error("COMMAND_TIMEOUT"), details: { output: "partial\n", timed_out: true } },
    });
    expect(await daemon.exec(id, "echo $MARK; ps -eo args | grep -c '[s]leep 4321'")).toMatchObject(
      {
        output: "alive\n0\n",
      },
    );
  });

  it("reports a directory with a colon and a newline correctly", async () => {
    const directory = "/workspace/a:b\nc";
    expect(await daemon.exec(id, "mkdir -p $'a:b\\nc' && cd $'a:b\\nc'")).toMatchObject({
      cwd: directory,
    });
    expect(await daemon.call("GET", `/v1/sessions/${id}`)).toMatchObject({
      body: { cwd: directory },
    });
    await daemon.exec(id, "cd /workspace");
  });

  it("passes 100 MB of output: the beginning and end in the response, all of it by cursor", async () => {
    const cmd = `head -c ${HUNDRED_MB} /dev/zero | tr '\\0' x`;
    const { body } = await daemon.call<{ exec_id: string; output: string }>(
      "POST",
      `/v1/sessions/${id}/exec`,
      { cmd, output_budget_bytes: 1000 },
    );
    expect(body).toMatchObject({ exit_code: 0, truncated: true, output_bytes: HUNDRED_MB });
    expect(body.output.length).toBeLessThan(1100);
    let cursor = 0;
    let bytes = 0;
    for (let done = false; !done;) {
      const path = `/v1/sessions/${id}/execs/${body.exec_id}/output?cursor=${cursor}&max_bytes=8388608`;
      const { body: page } = await daemon.call<{
        next_cursor: number;
        done: boolean;
        skipped_bytes: number;
        chunks: { chunk: string }[];
      }>("GET", path);
      expect(page.skipped_bytes).toBe(0);
      bytes += page.chunks.reduce((sum, { chunk }) => sum + chunk.length, 0);
      cursor = page.next_cursor;
      done = page.done;
    }
    expect(bytes).toBe(HUNDRED_MB);
  });

  it("streams while the command runs, each event in order, then reports how it ended", async () => {
    const response = await daemon.fetch(`/v1/sessions/${id}/exec/stream`, {
      method: "POST",
      body: JSON.stringify({
        cmd: "echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2; false",
      }),
    });
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    const seen: SseEvent[] = [];
    for await (const event of events(response)) {
      seen.push(event);
      // Only a client that sees the first chunk while the command runs can let it continue.
      if (event.data["chunk"] === "one\n")
        await daemon.call("POST", `/v1/sessions/${id}/fs/write`, { path: "go", text: "" });
    }
    expect(seen.map(({ event }) => event)).toEqual(["chunk", "chunk", "done"]);
    expect(seen[1]?.data).toMatchObject({
      chunk: "two\n",
      stream: "stderr",
      timestamp: expect.any(Number),
    });
    expect(seen[2]?.data).toMatchObject({
      exit_code: 1,
      cwd: "/workspace",
      duration_ms: expect.any(Number),
    });
  });

  it("runs a repeated request once", async () => {
    const headers = { "idempotency-key": "only-once" };
    const request = { cmd: "echo run >> runs; wc -l < runs" };
    const path = `/v1/sessions/${id}/exec`;
    const first = await daemon.call("POST", path, request, headers);
    const again = await daemon.call("POST", path, request, headers);
    expect(again.body["exec_id"]).toBe(first.body["exec_id"]);
    expect(again.body["output"]).toBe("1\n");
    expect(await daemon.call("POST", path, { cmd: "other" }, headers)).toMatchObject({
      status: 409,
      body: error("CONFLICT"),
    });
  });

  it("accepts the input and the timeout of clients that send every field", async () => {
    const hi = Buffer.from("hi").toString("base64");
    for (const input of [
      { stdin: "hi", stdin_base64: "" },
      { stdin: "", stdin_base64: hi },
    ]) {
      const body = {
        cmd: ["cat"],
        stdin_open: false,
        timeout_ms: 0,
        timeout_seconds: 30,
        ...input,
      };
      expect(await daemon.call("POST", `/v1/sessions/${id}/exec`, body)).toMatchObject({
        status: 200,
        body: { output: "hi", timeout_ms: 30_000 },
      });
    }
    const execs = `/v1/sessions/${id}/execs`;
    const open = { cmd: ["cat"], stdin: "", stdin_open: true };
    const { body } = await daemon.call<{ exec_id: string }>("POST", execs, open);
    const fed = { text: "", content_base64: hi, close: true };
    expect(await daemon.call("POST", `${execs}/${body.exec_id}/stdin`, fed)).toMatchObject({
      status: 200,
    });
    expect(await daemon.call("POST", `${execs}/${body.exec_id}/wait`, {})).toMatchObject({
      body: { output: "hi" },
    });
  });

  it("can be started, fed, signalled, waited for and listed", async () => {
    const base = `/v1/sessions/${id}/execs`;
    const { status, body } = await daemon.call("POST", base, { cmd: ["cat"], stdin_open: true });
    expect(status).toBe(202);
    const exec = `${base}/${String(body["exec_id"])}`;
    await daemon.call("POST", `${exec}/stdin`, { text: "hello" });
    const page = await daemon.call("GET", `${exec}/output?wait_ms=10000`);
    expect(page.body).toMatchObject({ chunks: [{ chunk: "hello" }], done: false });
    expect(await daemon.call("POST", `${exec}/wait`, { timeout_ms: 1 })).toMatchObject({
      body: { status: "running" },
    });
    expect(await daemon.call("POST", `${exec}/signal`, { signal: "SIGTERM" })).toMatchObject({
      body: { ok: true, delivered: 1 },
    });
    expect(await daemon.call("POST", `${exec}/wait`, {})).toMatchObject({
      body: { status: "done", end_reason: "killed", signal: 15, output: "hello" },
    });
    expect(
      (await daemon.call<{ execs: { exec_id: string }[] }>("GET", base)).body.execs[0],
    ).toMatchObject({
      exec_id: body["exec_id"],
    });
  });

  it("is kept on the host after the sandbox is gone", async () => {
    const gone = await daemon.open();
    const { exec_id } = await daemon.exec(gone, "echo last words");
    await daemon.call("DELETE", `/v1/sessions/${gone}`);
    const path = `/v1/sessions/${gone}/execs/${String(exec_id)}/output`;
    expect((await daemon.call("GET", path)).body).toMatchObject({
      chunks: [{ chunk: "last words\n" }],
      done: true,
    });
  });
});

describe("files", () => {
  const fs = (rest: string): string => `/v1/sessions/${id}/fs/${rest}`;

  it("support binary content, and can be empty", async () => {
    const bytes = Buffer.from(Array.from({ length: 1024 }, (_, i) => i % 256));
    const content_base64 = bytes.toString("base64");
    expect(
      await daemon.call("POST", fs("write"), { path: "/workspace/blob", content_base64 }),
    ).toMatchObject({ status: 200, body: { ok: true, path: "/workspace/blob", size: 1024 } });
    expect((await daemon.call("GET", fs("read?path=/workspace/blob"))).body).toMatchObject({
      path: "/workspace/blob",
      content_base64,
      truncated: false,
    });
    expect((await daemon.call("GET", fs("read?path=blob&max_bytes=10"))).body).toMatchObject({
      content_base64: bytes.subarray(0, 10).toString("base64"),
      truncated: true,
      size: 1024,
    });
    for (const body of [{ text: "" }, { content_base64: "" }]) {
      expect(await daemon.call("POST", fs("write"), { path: "empty", ...body })).toMatchObject({
        status: 200,
      });
      expect((await daemon.call("GET", fs("read?path=empty"))).body).toMatchObject({
        content_base64: "",
        truncated: false,
      });
    }
  });

  it("are written by clients that send every field", async () => {
    for (const [path, body] of Object.entries({
      text: { text: "kept", content_base64: "" },
      base64: { text: "", content_base64: Buffer.from("kept").toString("base64") },
    })) {
      const zeros = { append: false, if_match: "", raw_path: "" };
      const written = await daemon.call("POST", fs("write"), { path, ...body, ...zeros });
      expect(written).toMatchObject({ status: 200, body: { ok: true, size: 4 } });
    }
    expect(await daemon.exec(id, "cat text base64")).toMatchObject({ output: "keptkept" });
    const twice = { path: "text", text: "a", content_base64: "Yg==" };
    expect(await daemon.call("POST", fs("write"), twice)).toMatchObject({
      status: 400,
      body: error("INVALID_REQUEST"),
    });
  });

  it("are uploaded to a directory whose path is empty or ends in a slash", async () => {
    for (const [path, uploaded] of Object.entries({
      "": "/workspace/form.txt",
      "/workspace/in/": "/workspace/in/form.txt",
      "in//": "/workspace/in/form.txt",
    })) {
      const form = new FormData();
      form.append("path", path);
      form.append("file", new Blob(["x"]), "form.txt");
      const response = await daemon.fetch(fs("upload"), { method: "POST", body: form });
      expect(await response.json()).toEqual({ ok: true, paths: [uploaded] });
    }
  });

  it("that are missing return 404", async () => {
    expect(await daemon.call("GET", fs("read?path=nothing"))).toMatchObject({
      status: 404,
      body: error("FILE_NOT_FOUND"),
    });
  });

  it("of 100 MB can be uploaded and downloaded, completely and in ranges", async () => {
    const bytes = Buffer.alloc(HUNDRED_MB);
    for (let i = 0; i < bytes.length; i += 4096) bytes.writeUInt32LE(i, i);
    const form = new FormData();
    form.append("path", "/workspace/up");
    form.append("file", new Blob([bytes]), "../../big.bin");
    const uploaded = await daemon.fetch(fs("upload"), { method: "POST", body: form });
    expect(await uploaded.json()).toEqual({ ok: true, paths: ["/workspace/up/big.bin"] });
    const whole = await daemon.fetch(fs("file?path=/workspace/up/big.bin"));
    expect(sha256(await whole.bytes())).toBe(sha256(bytes));
    const range = await daemon.fetch(fs("file?path=/workspace/up/big.bin"), {
      headers: { range: "bytes=4096-4099" },
    });
    expect(range.status).toBe(206);
    expect(Buffer.from(await range.bytes())).toEqual(bytes.subarray(4096, 4100));
    const put = await daemon.fetch(fs("file?path=put.bin"), { method: "PUT", body: bytes });
    expect(put.status).toBe(200);
    expect(
      await daemon.exec(id, "sha256sum < put.bin | cut -c1-64; rm -r put.bin up"),
    ).toMatchObject({
      output: `${sha256(bytes)}\n`,
    });
  });
});

describe("workspaces", () => {
  it("outlive sessions and can be used without one", async () => {
    const first = await daemon.open({ workspace_id: "kept-files" });
    await daemon.exec(first, "echo from a session > note");
    await daemon.call("DELETE", `/v1/sessions/${first}`);
    const base = "/v1/workspaces/kept-files";
    expect((await daemon.call("GET", "/v1/workspaces")).body).toMatchObject({
      workspaces: [{ id: "kept-files" }],
    });
    await daemon.call("POST", `${base}/fs/write`, { path: "more", text: "from a file call" });
    const form = new FormData();
    form.append("path", "/");
    form.append("file", new Blob(["from a form"]), "form");
    const upload = await daemon.fetch(`${base}/fs/upload`, { method: "POST", body: form });
    expect(await upload.json()).toEqual({ ok: true, paths: ["/workspace/form"] });
    const { body } = await daemon.call<{ entries: { name: string }[] }>("GET", `${base}/fs?path=.`);
    expect(body.entries.map(({ name }) => name).toSorted()).toEqual(["form", "more", "note"]);
    const second = await daemon.open({ workspace_id: "kept-files" });
    expect(await daemon.exec(second, "cat note more")).toMatchObject({
      output: "from a session\nfrom a file call",
    });
    expect(await daemon.call("DELETE", base)).toMatchObject({
      status: 409,
      body: error("CONFLICT"),
    });
    await daemon.call("DELETE", `/v1/sessions/${second}`);
    expect(await daemon.call("DELETE", base)).toMatchObject({ status: 200 });
    expect((await daemon.call("GET", "/v1/workspaces")).body).toEqual({ workspaces: [] });
  });
});
