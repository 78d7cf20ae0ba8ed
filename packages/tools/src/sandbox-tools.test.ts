/** Which tools an agent gets, and how a model sees them. */
import { SandboxClient } from "@sandkasten/sdk";
import { describe, expect, it } from "vitest";
import {
  DEFAULT_POLICY,
  type JsonSchema,
  parseSandboxSettings,
  type SandboxPolicy,
  SandboxScope,
  sandboxTools,
} from "./index.ts";

const client = new SandboxClient({ baseUrl: "http://127.0.0.1:1" });
const agentScope = new SandboxScope({ client, namespace: "agent", id: "run_1" });
const fileStore = { get: async () => undefined, put: async () => {} };

const CODE_TOOLS = [
  "sandbox_open",
  "sandbox_exec",
  "sandbox_exec_read",
  "sandbox_exec_wait",
  "sandbox_fs_write",
  "sandbox_fs_read",
  "sandbox_fs_list",
  "sandbox_fs_delete",
  "sandbox_close",
];

function toolsOf(settings: unknown, more: object = {}, policy: Partial<SandboxPolicy> = {}) {
  return sandboxTools(settings === undefined ? undefined : parseSandboxSettings(settings), {
    client,
    agentScope,
    policy: { ...DEFAULT_POLICY, ...policy },
    ...more,
  });
}
const namesOf = (...args: Parameters<typeof toolsOf>) => toolsOf(...args).map(({ name }) => name);

describe("an agent", () => {
  it("has no tools without settings, sandbox_run in compute mode, and nine in code mode", () => {
    expect(namesOf(undefined)).toEqual([]);
    expect(namesOf("python")).toEqual(["sandbox_run"]);
    expect(namesOf({ mode: "compute" }, { fileStore })).toEqual(["sandbox_run"]);
    expect(namesOf({ mode: "code" })).toEqual(CODE_TOOLS);
  });

  it("has two more with a file store", () => {
    expect(namesOf({ mode: "code" }, { fileStore })).toEqual([
      ...CODE_TOOLS,
      "sandbox_stage_file",
      "sandbox_publish_file",
    ]);
  });

  it("has none if the administrator disables them", () => {
    expect(namesOf("python", {}, { enabled: false })).toEqual([]);
    expect(namesOf({ mode: "code" }, {}, { enabled: false })).toEqual([]);
    expect(namesOf({ mode: "code" }, {}, { codeModeEnabled: false })).toEqual([]);
    expect(namesOf("python", {}, { codeModeEnabled: false })).toEqual(["sandbox_run"]);
  });
});

const all = [...toolsOf({ mode: "code" }, { fileStore }), ...toolsOf("python")];

function schemaOf(name: string): JsonSchema {
  const tool = all.find((one) => one.name === name);
  if (tool === undefined) throw new Error(`there is no ${name}`);
  return tool.inputJsonSchema;
}

describe("a tool's description for a model", () => {
  it.each(all.map((tool) => [tool.name, tool] as const))(
    "%s is an object with descriptions",
    (_, tool) => {
      const { inputJsonSchema, outputJsonSchema, description } = tool;
      expect(inputJsonSchema).toMatchObject({ type: "object", additionalProperties: false });
      expect(outputJsonSchema).toMatchObject({ type: "object" });
      expect(description.length).toBeGreaterThan(60);
      expect(description.length).toBeLessThan(600);
      expect(JSON.stringify(inputJsonSchema)).not.toContain("$ref");
    },
  );

  it("sandbox_exec has every spelling, and requires none of them", () => {
    const { properties, required } = schemaOf("sandbox_exec");
    expect(Object.keys(properties as object)).toEqual(
      expect.arrayContaining(
        "cmd command sandbox_id session_id id cwd workdir env timeout_seconds timeout_ms stream stateful".split(
          " ",
        ),
      ),
    );
    expect(required).toEqual([]);
  });

  it("sandbox_run keeps the schema of the seeds: only code is required", () => {
    const { properties, required } = schemaOf("sandbox_run");
    expect(required).toEqual(["code"]);
    expect(Object.keys(properties as object)).toEqual(
      expect.arrayContaining(["runtime", "code", "args", "env", "files", "timeout_seconds"]),
    );
  });
});

describe("a call", () => {
  it("accepts null for absent values, and refuses unknown fields", async () => {
    const scope = new SandboxScope({ client, namespace: "agent", id: "run_2" });
    scope.detach();
    const [open] = toolsOf({ mode: "code" }, { agentScope: scope });
    await expect(open?.run({ image: null, session_key: null })).rejects.toThrow("run has ended");
    await expect(open?.run(undefined)).rejects.toThrow("run has ended");
    await expect(open?.run({ imagee: "x" })).rejects.toMatchObject({
      code: "INVALID_INPUT",
      message: "sandbox_open: `imagee` is not a known name; the nearest known name is `image`",
    });
  });

  it("that was aborted before it started does nothing", async () => {
    const [open] = toolsOf({ mode: "code" });
    const signal = AbortSignal.abort();
    await expect(open?.run({}, { signal })).rejects.toMatchObject({ code: "CANCELLED" });
  });

  it("reports its duration, even if it fails", async () => {
    const times: number[] = [];
    const [open] = toolsOf({ mode: "code" }, { onSandboxTime: (ms: number) => times.push(ms) });
    await expect(open?.run({})).rejects.toMatchObject({ code: "SANDBOX_FAILED" });
    expect(times).toHaveLength(1);
    expect(times[0]).toBeGreaterThan(0);
  });
});
