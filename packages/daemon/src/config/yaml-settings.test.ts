import { describe, expect, it } from "vitest";
import { configKeys } from "./keys.ts";
import { problemsOf } from "./settings.ts";
import { yamlLayer } from "./yaml-settings.ts";

/** All errors of a file `f`. */
function problemsIn(text: string): string[] {
  const { settings, problems } = yamlLayer("f", text, configKeys());
  return [...problems, ...settings.flatMap((setting) => problemsOf(setting))];
}

function valuesIn(text: string): Record<string, unknown> {
  const { settings, problems } = yamlLayer("f", text, configKeys());
  expect(problems).toEqual([]);
  return Object.fromEntries(settings.map(({ key, value }) => [key.name, value]));
}

describe("yamlLayer()", () => {
  it("accepts an empty file and a group that is commented out", () => {
    expect(valuesIn("")).toEqual({});
    expect(valuesIn("# nothing\n")).toEqual({});
    expect(valuesIn("defaults:\n#  pids_limit: 3\nlog_level: warn\n")).toEqual({
      log_level: "warn",
    });
  });

  it("follows anchors, in values and for whole groups", () => {
    expect(
      valuesIn(
        "defaults: &d { pids_limit: 20, mem_limit_mb: &m 64 }\nmax_limits: *d\nworkspace: { disk_limit_mb: *m }\n",
      ),
    ).toMatchObject({
      "defaults.pids_limit": 20,
      "max_limits.pids_limit": 20,
      "workspace.disk_limit_mb": 64,
    });
  });

  it.each([
    ["lisen: a", "f:1:1: lisen is not known; the nearest known name is listen"],
    [
      "\ndefaults:\n  memlimit: 1",
      "f:3:3: defaults.memlimit is not known; the nearest known name is defaults.mem_limit_mb",
    ],
    [
      "mem_limit_mb: 1",
      "f:1:1: mem_limit_mb is not known; the nearest known name is defaults.mem_limit_mb",
    ],
    [
      "sessionTtlSeconds: 1",
      "f:1:1: sessionTtlSeconds is not known; the nearest known name is session_ttl_seconds",
    ],
    [
      "http: { listen: 'a:1' }",
      "f:1:9: http.listen is not known; the nearest known name is listen",
    ],
    [
      "pool:\n  - image: host\n    sise: 1\n    size: 2",
      "f:3:5: pool[0].sise is not known; the nearest known name is size",
    ],
    [
      "defaults.pids_limit: 20",
      "f:1:1: defaults.pids_limit must be written without the dot: pids_limit as an entry of the mapping defaults",
    ],
    ["__proto__: 1", "f:1:1: __proto__ is not known; the nearest known name is pool"],
  ])("refuses the unknown name in %j", (text, problem) => {
    const [found, ...more] = problemsIn(text);
    expect(more).toEqual([]);
    expect(found).toBe(problem);
  });

  it.each([
    ["listen: 8080", "f:1:9: listen is 8080; it must be host:port"],
    ["log_level:", "f:1:1: log_level is empty; give it a value or remove the line"],
    ["defaults: 3", "f:1:11: defaults must be a mapping with cpu_limit, mem_limit_mb"],
    ["- a", "f:1:1: the file must be a mapping with listen, api_key"],
    ["allowed_images: host", 'f:1:17: allowed_images is "host"; it must be a list'],
    [
      "allowed_images:\n  - host\n  - ../x",
      'f:3:5: allowed_images[1] is "../x"; it must be an image',
    ],
    ["pool:\n  - image: host", "f:2:5: pool[0].size is missing; it must be an integer"],
    ["pool:\n  - host", 'f:2:5: pool[0] is "host"; it must be a mapping with image, size, profile'],
    [
      "http: { allowed_origins: ['*'] }",
      'f:1:27: http.allowed_origins[0] is "*"; it must be an origin',
    ],
    [
      "defaults: { pids_limit: -1.5 }",
      "f:1:25: defaults.pids_limit is -1.5; it must be an integer",
    ],
    ["session_ttl_seconds: '60'", 'f:1:22: session_ttl_seconds is "60"; it must be an integer'],
    ["api_key: 123456789", "f:1:10: api_key must have 8 to 512 characters"],
  ])("says where the error in %j is and what is allowed", (text, problem) => {
    const [found, ...more] = problemsIn(text);
    expect(more).toEqual([]);
    expect(found).toContain(problem);
  });

  it.each([
    "api_key: *hush",
    "api_key: &hush",
    "api_key: !hush x",
    'api_key: "hush',
    'api_key: "\\hush"',
    "api_key: @hush",
    "api_key: 'a' hush",
    "api_key: |hush",
    "api_key: hush: hush",
    "api_key: {hush",
    "%hush\n---\napi_key: a",
    "api_keys: [hush, {name: hush]",
    "api_key: hush\napi_key: hush",
  ])("reports the error in %j without printing what could be a key", (text) => {
    const problems = problemsIn(text);
    expect(problems.length).toBeGreaterThan(0);
    expect(problems.join("\n")).not.toContain("hush");
    expect(problems.join("\n")).toMatch(/^f:\d+:\d+: /);
  });
});
