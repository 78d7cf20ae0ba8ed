/**
 * The guide's snippets are usable by clients: valid JSON that starts this program with options that
 * exist.
 */
import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { z } from "zod";

const GUIDE = new URL("../../../docs/guides/mcp.md", import.meta.url);
const REFERENCE = new URL("../../../docs/reference/cli.md", import.meta.url);
const ROOT = new URL("../../../", import.meta.url);

const stdio = z.strictObject({
  type: z.literal("stdio").optional(),
  command: z.string(),
  args: z.array(z.string()),
  env: z.record(z.string(), z.string()),
});
const http = z.strictObject({
  type: z.literal("http"),
  url: z.url(),
  headers: z.record(z.string(), z.string()),
});
const servers = z.record(z.string(), z.union([stdio, http]));
const snippet = z.union([z.strictObject({ mcpServers: servers }), z.strictObject({ servers })]);

it("every snippet is valid and starts this program", async () => {
  const guide = await readFile(GUIDE, "utf8");
  const snippets = [...guide.matchAll(/```json\n(?<json>.*?)```/gs)].map(({ groups }) =>
    snippet.parse(JSON.parse(groups?.["json"] ?? "")),
  );
  expect(snippets).toHaveLength(3);
  const all = snippets.flatMap((one) =>
    Object.values("servers" in one ? one.servers : one.mcpServers),
  );
  for (const server of all) {
    if ("url" in server) {
      expect(server.url).toBe("http://127.0.0.1:8588/mcp");
      expect(server.headers["Authorization"]).toMatch(/^Bearer /);
      continue;
    }
    const program = server.command.replace("/opt/sandkasten/", "");
    expect((await readFile(new URL(program, ROOT), "utf8")).startsWith("#!")).toBe(true);
    expect(server.args).toEqual(["mcp"]);
    expect(Object.keys(server.env)).toEqual(["SANDKASTEN_URL", "SANDKASTEN_API_KEY"]);
  }
});

it("every option in the guide exists in the command", async () => {
  const [guide, reference] = await Promise.all([
    readFile(GUIDE, "utf8"),
    readFile(REFERENCE, "utf8"),
  ]);
  const section = /^## sandkasten mcp\n(?<text>.*?)^## /ms.exec(reference)?.groups?.["text"] ?? "";
  const named = new Set(
    [...guide.matchAll(/`[^`\n]*?(?<option>--[a-z-]+)/g)].map(
      ({ groups }) => groups?.["option"] ?? "",
    ),
  );
  expect([...named].toSorted()).toEqual([
    "--allowed-host",
    "--http",
    "--image",
    "--lease-seconds",
    "--listen",
    "--mode",
  ]);
  for (const option of named) expect(section).toContain(`\`${option}`);
});
