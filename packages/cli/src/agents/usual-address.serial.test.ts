/** Commands without --dir, in a separate network namespace where the default port is free. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const BIN = fileURLToPath(new URL("../../bin", import.meta.url));

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-usual-"));
  for (const name of ["here", "there"]) {
    await mkdir(join(directory, name, "agents"), { recursive: true });
    const file = join(directory, name, "agents", `${name}.prompt`);
    await writeFile(file, "---\nmodel: scripted/x\n---\n{{userInput}}\n");
  }
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function onOwnNetwork(script: string): Promise<readonly string[]> {
  const { stdout } = await promisify(execFile)(
    "unshare",
    ["--net", "bash", "-euc", `ip link set lo up\n${script}`],
    {
      cwd: join(directory, "here"),
      env: { PATH: `${BIN}:${dirname(process.execPath)}:${process.env["PATH"]}`, HOME: directory },
    },
  );
  return stdout.trimEnd().split("\n");
}

describe("without --dir and SANDKASTEN_AGENTS_URL", () => {
  it("commands serve the working directory themselves until a service responds at the default address", async () => {
    const lines = await onOwnNetwork(`
      sandkasten agent list | cut -f 1
      sandkasten complete bash -- agent show ""
      sandkasten --json agents serve --dir ../there > listening 2> log &
      until [ -s listening ]; do sleep 0.05; done
      sandkasten agent list | cut -f 1
      sandkasten complete bash -- agent show ""
      curl -s 'http://localhost:8587/execute?wait=true' -H 'content-type: application/json' \\
        -d '{"agent_name": "there", "task": "hello"}'
      kill $!
      wait $!
    `);
    expect(lines.slice(0, 4)).toEqual(["here", "here", "there", "there"]);
    expect(JSON.parse(lines[4] ?? "")).toMatchObject({
      status: "succeeded",
      text: "This is the scripted model. You said: hello",
    });
  });
});
