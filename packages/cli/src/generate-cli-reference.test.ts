import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { cliReference } from "./generate-cli-reference.ts";

describe("docs/reference/cli.md", () => {
  it("matches the definitions of the commands; if this fails, regenerate it with generate-cli-reference.ts", async () => {
    const page = new URL("../../../docs/reference/cli.md", import.meta.url);
    expect(await readFile(page, "utf8")).toBe(cliReference());
  });

  it("names every command and option, and no hidden ones", () => {
    const page = cliReference();
    for (const name of [
      "run",
      "exec",
      "shell",
      "cp",
      "image pull",
      "workspace rm",
      "doctor",
      "agent run",
      "workflow approve",
      "agents serve",
    ])
      expect(page).toContain(`# sandkasten ${name}\n`);
    expect(page).toContain("`--idle-timeout <duration>`");
    expect(page).not.toContain("# sandkasten complete\n");
    expect(page).not.toContain("--until-input-ends");
  });
});
