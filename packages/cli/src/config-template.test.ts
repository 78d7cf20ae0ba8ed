import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { configKeys, loadConfig } from "@sandkasten/daemon/config";
import { afterEach, beforeEach, expect, it } from "vitest";
import { configTemplate } from "./config-template.ts";

let scratch: string;
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
});
afterEach(async () => {
  await rm(scratch, { recursive: true, force: true });
});

async function load(text: string) {
  const file = join(scratch, "sandkasten.yaml");
  await writeFile(file, text, { mode: 0o600 });
  return await loadConfig({ env: {}, cwd: scratch, home: scratch, isRoot: false, file });
}

it("a template contains only defaults", async () => {
  const { settings, warnings } = await load(configTemplate(configKeys(), new Map()));
  expect(settings.filter(({ source }) => source.kind !== "default")).toEqual([]);
  expect(warnings).toEqual([]);
});

it("every key is in it, and has its default when uncommented", async () => {
  const template = configTemplate(configKeys(), new Map());
  const names = new Set(configKeys().flatMap(({ path }) => [path.join("."), path[0] ?? ""]));
  const withoutDefault = new Set([
    "api_key",
    "data_dir",
    "database_url",
    "cluster.address",
    "cluster.secret",
    "dashboard.agents_url",
    "dashboard.agents_api_key",
    "default_image",
    "images.credentials_file",
    "docker.cert_path",
    "docker.config_dir",
    "docker.network",
    "docker.runtime",
    "network.default",
    "network.name_servers",
    "network.ca_file",
    "runtime_dir",
    "pool",
    "jwt.issuer",
    "jwt.audience",
    "jwt.jwks_file",
    "jwt.jwks_uri",
    "jwt.public_key",
    "jwt.scope_claim",
    "preview.domain",
    "telemetry.endpoint",
    "telemetry.headers",
    "telemetry.protocol",
    "telemetry.service_name",
    "telemetry.sample_ratio",
    "telemetry.metrics_listen",
  ]);
  let group = "";
  const bare = template.split("\n").flatMap((line) => {
    const [, key, indent = "", leaf = ""] = /^# (( *)([a-z_]+):.*)$/.exec(line) ?? [];
    if (key === undefined) return [];
    const name = indent === "" ? leaf : `${group}.${leaf}`;
    if (!names.has(name) || withoutDefault.has(name)) return [];
    if (indent === "") group = leaf;
    return [key];
  });
  const { settings } = await load(bare.join("\n"));
  const left = settings.filter(({ source }) => source.kind === "default").map(({ key }) => key);
  expect(left).toEqual([...withoutDefault]);
  const standard = await load("");
  const values = (all: typeof settings) => all.map(({ key, value }) => [key, value]);
  expect(values(settings)).toEqual(values(standard.settings));
});

it("chosen values are set, also within a group", async () => {
  const chosen = new Map<string, unknown>([
    ["listen", "127.0.0.1:9000"],
    ["defaults.mem_limit_mb", 1024],
  ]);
  const config = await load(configTemplate(configKeys(), chosen));
  expect(config.listen).toEqual({ host: "127.0.0.1", port: 9000 });
  expect(config.defaults.limits.memoryBytes).toBe(1024 * 1024 * 1024);
});
