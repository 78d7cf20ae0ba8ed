import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig } from "@sandkasten/daemon/config";
import { afterEach, beforeEach, expect, it } from "vitest";
import { addressForOthers } from "./address-for-others.ts";

let scratch: string;
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
});
afterEach(async () => {
  await rm(scratch, { recursive: true, force: true });
});

const DAEMON = { url: "http://127.0.0.1:8181", apiKey: "sk-it's", apiKeyGenerated: true };
const TOLD = String.raw`SANDKASTEN_URL=http://127.0.0.1:8181 SANDKASTEN_API_KEY='sk-it'\''s' `;

/** How to reach a daemon that was started this way. */
async function address(
  name: string,
  yaml: string,
  { env = {}, flag }: { env?: Readonly<Record<string, string>>; flag?: string } = {},
): Promise<string> {
  await writeFile(join(scratch, name), yaml, { mode: 0o600 });
  const file = flag === undefined ? {} : { file: flag };
  const config = await loadConfig({ env, cwd: scratch, home: scratch, isRoot: false, ...file });
  const options = (): { readonly config?: string } => (flag === undefined ? {} : { config: flag });
  return addressForOthers({ host: { environment: { variables: env } }, options }, config, DAEMON);
}

it("a daemon with the default file is found without options", async () => {
  expect(await address("sandkasten.yaml", "listen: 127.0.0.1:8181\n")).toBe("");
});

it("a daemon with a named file is not, however it was named", async () => {
  const yaml = "listen: 127.0.0.1:8181\n";
  expect(await address("mine.yaml", yaml, { flag: "mine.yaml" })).toBe(TOLD);
  const env = { SANDKASTEN_CONFIG: "mine.yaml" };
  expect(await address("mine.yaml", yaml, { env })).toBe(TOLD);
});

it("nor is one configured by variables, or on a free port", async () => {
  const env = { SANDKASTEN_LISTEN: "127.0.0.1:8181" };
  expect(await address("sandkasten.yaml", "", { env })).toBe(TOLD);
  expect(await address("sandkasten.yaml", "listen: 127.0.0.1:0\n")).toBe(TOLD);
});

it("a configured key is not shown", async () => {
  const config = await loadConfig({ env: {}, cwd: scratch, home: scratch, isRoot: false });
  const starter = {
    host: { environment: { variables: { SANDKASTEN_CONFIG: "mine.yaml" } } },
    options: () => ({}),
  };
  expect(addressForOthers(starter, config, { ...DAEMON, apiKeyGenerated: false })).toBe(
    "SANDKASTEN_URL=http://127.0.0.1:8181 SANDKASTEN_API_KEY='<your key>' ",
  );
});
