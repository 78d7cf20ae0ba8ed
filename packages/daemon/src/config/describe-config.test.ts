import { describe, expect, it } from "vitest";
import { describeConfig } from "./describe-config.ts";
import { configKeys } from "./keys.ts";
import { makePlace } from "./testing/load-fixture.ts";

describe("describeConfig()", () => {
  it("names every key, its value and source, but no secret", async () => {
    const { load, file } = await makePlace(
      "api_key: hush-hush\napi_keys: [{ name: ci, key: hush-again, max_sessions: 2 }]\n",
    );
    const config = await load({
      env: { SANDBOX_SESSION_IDLE_TIMEOUT: "1m" },
      flags: { "log-level": "warn" },
    });
    const description = describeConfig(config);
    const settings = new Map(description.settings.map((setting) => [setting.key, setting]));
    expect([...settings.keys()]).toEqual(configKeys().map(({ name }) => name));
    expect(description.file).toBe(file);
    expect(JSON.stringify(description)).not.toContain("hush");
    expect(settings.get("api_key")).toEqual({
      key: "api_key",
      value: "***",
      source: { kind: "file", name: `${file}:1:10` },
    });
    expect(settings.get("api_keys")?.value).toEqual([{ name: "ci", key: "***", max_sessions: 2 }]);
    expect(settings.get("session_ttl_seconds")).toMatchObject({
      value: 60,
      source: { kind: "env", name: "SANDBOX_SESSION_IDLE_TIMEOUT" },
    });
    expect(settings.get("log_level")).toMatchObject({
      value: "warn",
      source: { kind: "flag", name: "--log-level" },
    });
    expect(settings.get("data_dir")).toMatchObject({
      value: "/home/me/.local/share/sandkasten",
      source: { kind: "default" },
    });
  });
});
