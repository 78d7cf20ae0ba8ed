import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runTestCli } from "../testing/test-host.ts";

let scratch: string;
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-cli-"));
});
afterEach(async () => {
  await rm(scratch, { recursive: true, force: true });
});

/** No daemon listens here, whatever runs on this machine. */
const doctor = ["--url", "http://127.0.0.1:1", "doctor"];

describe("doctor", () => {
  it("exits with 1 and says what to fix if the configuration is invalid", async () => {
    const options = { cwd: scratch, columns: 100, env: { NO_COLOR: "1" } };
    const { code, stdout } = await runTestCli([...doctor, "--set", "log_level=loud"], options);
    expect(code).toBe(1);
    expect(stdout).toMatch(/✓ node Node \d+/);
    expect(stdout).toMatch(/✗ configuration .*loud.*\n {2}→ Correct the named file/);
    expect(stdout).toMatch(/^✗ Sandboxes cannot run here yet\.\n {2}→ Correct the named file/);
    // A missing daemon is not a reason.
    expect(stdout).toMatch(/^– daemon none answers/m);
  });

  it("starts with what to do first, and counts only what sandboxes need as failures", async () => {
    const options = { cwd: scratch, columns: 100, env: { NO_COLOR: "1" } };
    const host = "docker.host=unix:///nonexistent/engine.sock";
    const args = ["doctor", "--data-dir", scratch, "--set", host, "--set", "backend=docker"];
    const { code, stdout } = await runTestCli(args, options);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^✗ Sandboxes cannot run here yet\.\n {2}→ start the engine/);
    const [, oci = "", docker = ""] = stdout.split(/^Backend /m);
    expect(oci).not.toContain("✗");
    expect(docker).toMatch(/^✗ engine /m);
  });

  it("prints the same as JSON", async () => {
    const args = [...doctor, "--json", "--set", "log_level=loud"];
    const { code, stdout } = await runTestCli(args, { cwd: scratch });
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      usable: false,
      machine: [
        { name: "node", ok: true },
        { name: "configuration", ok: false },
      ],
      daemon: { ok: false },
    });
  });
});
