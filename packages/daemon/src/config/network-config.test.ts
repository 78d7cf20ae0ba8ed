import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { SandboxError } from "@sandkasten/protocol";
import { formatRule } from "../network/rules.ts";
import type { Config } from "./config.ts";
import { loadConfig } from "./load-config.ts";

const KEY = "sk-sandbox-network-config";
const directories: string[] = [];

afterEach(async () => {
  for (const directory of directories.splice(0)) await rm(directory, { recursive: true });
});

async function load(yaml: string): Promise<Config> {
  const directory = await mkdtemp(join(tmpdir(), "sandkasten-network-config-"));
  directories.push(directory);
  const file = join(directory, "sandkasten.yaml");
  await writeFile(file, yaml, { mode: 0o600 });
  return await loadConfig({ file, env: {}, cwd: directory, home: directory, isRoot: false });
}

async function problems(yaml: string): Promise<string> {
  try {
    await load(yaml);
  } catch (error) {
    if (error instanceof SandboxError) return error.message;
    throw error;
  }
  throw new Error("it was accepted");
}

describe("the configuration of networks", () => {
  it("allows no network by default", async () => {
    const { network } = await load("{}\n");
    expect(network.ceiling).toEqual([]);
    expect(network.default).toBeUndefined();
  });

  it("resolves presets in the maximum, the default and the maximums of keys", async () => {
    const { network, apiKeys } = await load(
      [
        "network:",
        "  presets: [{ name: python, allow: [index.test, '*.files.test:443'] }]",
        "  allow: [python, 10.1.2.0/24:5432]",
        "  default: [python]",
        `api_keys: [{ name: ci, key: ${KEY}, network_allow: [python, full] }, { name: me, key: ${KEY}2 }]`,
      ].join("\n"),
    );
    const python = ["index.test:80,443", "*.files.test:443"];
    expect(network.ceiling.map(formatRule)).toEqual([...python, "10.1.2.0/24:5432"]);
    expect(network.default?.map(formatRule)).toEqual(python);
    expect(apiKeys[0]?.networkCeiling?.map(formatRule)).toEqual([...python, "*:*"]);
    expect(apiKeys[1]).not.toHaveProperty("networkCeiling");
  });

  it("refuses what is neither a rule nor a preset, and says where", async () => {
    expect(await problems("network: { allow: ['https://a.test'] }\n")).toMatch(
      /network\.allow\[0\].* must be a host/,
    );
    expect(await problems("network: { allow: [pyton] }\n")).toContain(
      'has "pyton", which is not a preset',
    );
    expect(await problems("network: { default: [pyton] }\n")).toContain('"pyton"');
    expect(
      await problems(`api_keys: [{ name: ci, key: ${KEY}, network_allow: [pyton] }]\n`),
    ).toContain('"pyton"');
  });

  it("refuses presets that share a name, contain each other or replace `full`", async () => {
    expect(
      await problems("network: { presets: [{ name: a, allow: [] }, { name: a, allow: [] }] }\n"),
    ).toContain("has a name twice");
    expect(
      await problems("network: { presets: [{ name: a, allow: [] }, { name: b, allow: [a] }] }\n"),
    ).toContain('has "a", which is not a rule');
    expect(await problems("network: { presets: [{ name: full, allow: [] }] }\n")).toContain(
      "not full",
    );
  });
});
