import { describe, expect, it } from "vitest";
import { ALICES_KEY, HttpFixture } from "../../testing/http-fixture.ts";

describe("the log", () => {
  it("has one line for each request, with the pattern of its path", async () => {
    await using http = await HttpFixture.start();
    const id = await http.createSession();
    await http.call(`/v1/sessions/${id}`, { headers: { "x-request-id": "look" } });
    const lines = http.logLines.filter((line) => line.includes("look"));
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({
      level: 30,
      request_id: "look",
      method: "GET",
      route: "/v1/sessions/:id",
      status: 200,
      duration_ms: expect.any(Number) as number,
    });
  });

  it("contains no keys, headers, bodies, queries or variables, at any level", async () => {
    await using http = await HttpFixture.start();
    const id = await http.createSession({
      env: { SECRET_NAME: "secret-value" },
      metadata: { a: "secret-value" },
    });
    const body = {
      cmd: "echo secret-output",
      env: { SECRET_NAME: "secret-value" },
      stdin: "secret-input",
    };
    await http.call(`/v1/sessions/${id}/exec`, { body });
    await http.call(`/v1/sessions/${id}/exec/stream`, { body });
    await http.call(`/v1/sessions/${id}/exec`, {
      body: { ...body, cmd: "sleep 9; echo secret-output", timeout_ms: 1 },
    });
    await http.call(`/v1/sessions/${id}/exec`, { body: '{"cmd": "secret-output' });
    await http.call(`/v1/sessions/${id}/fs/write`, {
      body: { path: "secret-path", text: "secret-input" },
    });
    await http.call(`/v1/sessions/${id}/fs/read?path=secret-path`);
    await http.call(`/v1/sessions/${id}/fs/read?path=secret-other`);
    await http.call("/v1/sessions?key=secret-value&nonsense=secret-value");
    await http.call("/v1/secret-path?x=secret-value");
    await http.call("/%zz?secret-value");
    await http.call("/v1/version", { key: "secret-wrong-key" });
    const form = new FormData();
    form.set("path", "/workspace/secret-path");
    form.set("file", new Blob(["secret-input"]), "secret-name");
    await http.call(`/v1/sessions/${id}/fs/upload`, { body: form });
    const all = http.logLines.join("");
    expect(http.logLines.length).toBeGreaterThan(12);
    expect(all.toLowerCase()).not.toContain("secret");
    expect(all).not.toContain(ALICES_KEY);
    expect(all.toLowerCase()).not.toContain("bearer");
  });
});
