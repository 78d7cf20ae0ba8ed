import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BOBS_KEY, HttpFixture } from "../../testing/http-fixture.ts";

let http: HttpFixture;
let state: "ready" | "unreachable" | "busy" = "ready";
beforeAll(async () => {
  http = await HttpFixture.start({ replace: { ready: () => Promise.resolve(state) } });
});
afterAll(async () => await http[Symbol.asyncDispose]());

describe("the daemon", () => {
  it("reports whether it responds, and whether it can create sandboxes", async () => {
    expect((await http.call("/healthz", { key: null })).json).toEqual({ status: "ok" });
    expect((await http.call("/readyz", { key: null })).json).toEqual({ status: "ok" });
    state = "busy";
    expect(await http.call("/readyz", { key: null })).toMatchObject({
      status: 503,
      json: { error_code: "BACKEND_BUSY" },
    });
    state = "unreachable";
    expect((await http.call("/healthz", { key: null })).status).toBe(200);
    expect(await http.call("/readyz", { key: null })).toMatchObject({
      status: 503,
      json: { error_code: "ENGINE_UNREACHABLE" },
    });
    state = "ready";
  });

  it("reports its version", async () => {
    expect((await http.call("/v1/version")).json).toEqual({
      version: "1.2.3",
      backend: "fake",
      backends: ["fake"],
      node: process.version,
    });
  });

  it("counts sessions, commands and requests for Prometheus", async () => {
    const id = await http.createSession();
    await http.call(`/v1/sessions/${id}/exec`, { body: { cmd: "true" } });
    await http.call(`/v1/sessions/${id}/exec/stream`, { body: { cmd: "true" } });
    await http.call("/v1/sessions/none-of-ours");
    const answer = await http.call("/v1/metrics");
    expect(answer.headers.get("content-type")).toContain("text/plain; version=0.0.4");
    const lines = answer.text.split("\n");
    expect(lines).toContain('sandkasten_sessions{status="running"} 1');
    expect(lines).toContain("sandkasten_running_execs 0");
    expect(lines).toContain('sandkasten_images{backend="fake"} 2');
    expect(lines).toContain('sandkasten_image_bytes{backend="fake"} 3000');
    expect(lines).toContain('sandkasten_image_bytes_limit{backend="fake"} 4000');
    expect(lines).toContain("sandkasten_waiting_creates 0");
    expect(lines).toContain('sandkasten_storage_bytes{kind="disk_templates"} 8192');
    expect(lines).toContain('sandkasten_storage_files{kind="disk_templates"} 2');
    expect(lines).toContain(
      'sandkasten_http_requests_total{method="POST",route="/v1/sessions/:id/exec",status="200"} 1',
    );
    expect(lines).toContain(
      'sandkasten_http_requests_total{method="GET",route="/v1/sessions/:id",status="404"} 1',
    );
    const durations =
      'sandkasten_http_request_duration_seconds_bucket{method="POST",route="/v1/sessions/:id/exec",le="+Inf"} 1';
    expect(lines).toContain(durations);
    // Streams last as long as their readers, so only their number is reported.
    expect(answer.text).not.toMatch(/duration_seconds_count.*exec\/stream/);
    expect((await http.call("/metrics")).text).toContain("sandkasten_running_execs 0");
    expect(await http.call("/metrics", { key: BOBS_KEY })).toMatchObject({ status: 403 });
    expect(answer.text).not.toContain(id);
    for (const line of lines.filter((one) => one !== "" && !one.startsWith("#")))
      expect(line).toMatch(/^[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [\d.]+$/);
  });
});
