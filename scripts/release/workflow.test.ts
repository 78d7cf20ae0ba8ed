/** The shell steps of the release workflow, as they are in the workflow. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { readManifest, root, version } from "./versions.ts";

const run = promisify(execFile);

interface Workflow {
  readonly jobs: Readonly<Record<string, Job>>;
}

interface Job {
  readonly steps: readonly { readonly name?: string; readonly run?: string }[];
}

const workflow = parse(
  await readFile(join(root, ".github/workflows/release.yml"), "utf8"),
) as Workflow;

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sandkasten-workflow-"));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** As the workflow's runner runs it. */
async function step(job: string, name: string, env: Record<string, string> = {}): Promise<string> {
  const script = workflow.jobs[job]?.steps.find((each) => each.name === name)?.run;
  if (script === undefined) throw new Error(`the job ${job} has no step "${name}"`);
  const options = { cwd: directory, env: { PATH: process.env["PATH"], ...env } };
  return (await run("bash", ["-eo", "pipefail", "-c", script], options)).stdout;
}

async function put(path: string, text: string): Promise<void> {
  await mkdir(join(directory, path, ".."), { recursive: true });
  await writeFile(join(directory, path), text);
}

describe("the release workflow", () => {
  test("releases a tag only if it matches the version", async () => {
    await put("package.json", JSON.stringify(readManifest(".")));
    const name = "Check that the tag is the version";
    await step("build", name, { GITHUB_REF_NAME: `v${version}` });
    await expect(step("build", name, { GITHUB_REF_NAME: "v0.0.1" })).rejects.toThrow();
  });

  test("combines the files of both platforms, with matching checksums", async () => {
    const files = {
      "linux-x64": [
        "sandkasten-1.tgz",
        "sandkasten_client-1-py3-none-any.whl",
        "sandkasten_client-1.tar.gz",
        "sandkasten_1_amd64.deb",
        "sandkasten-1-image-linux-x64.tar.gz",
        "sandkasten-1.cdx.json",
        "SHA256SUMS",
      ],
      "linux-arm64": [
        "sandkasten_1_arm64.deb",
        "sandkasten-1-image-linux-arm64.tar.gz",
        "sandkasten-1.cdx.json",
        "SHA256SUMS",
      ],
    };
    for (const [platform, names] of Object.entries(files))
      for (const name of names) await put(`parts/release-${platform}/${name}`, platform);
    await step("publish", "Put the platforms together");
    const all = [...new Set([...files["linux-x64"], ...files["linux-arm64"]])].toSorted();
    expect((await readdir(join(directory, "release"))).toSorted()).toEqual(all);
    const bill = join(directory, "release/sandkasten-1.cdx.json");
    expect(await readFile(bill, "utf8")).toBe("linux-x64");
    const checked = await run("sha256sum", ["--check", "SHA256SUMS"], {
      cwd: join(directory, "release"),
    });
    expect(checked.stdout.trim().split("\n")).toHaveLength(all.length - 1);
    expect(await readdir(join(directory, "python"))).toHaveLength(2);
  });

  test("publishes each npm package, the native programs before their dependents", async () => {
    const names = ["sandkasten-1", "sandkasten-native-linux-x64-1", "sandkasten-sdk-1"];
    for (const name of [...names, "sandkasten-tools-1"]) {
      await put("package/package.json", JSON.stringify({ name, version: "1.0.0" }));
      await run("tar", ["-czf", `${name}.tgz`, "package"], { cwd: directory });
    }
    const published = await step("publish", "Publish the npm packages", {
      HOME: directory,
      npm_config_dry_run: "true",
      npm_config_offline: "true",
    });
    expect(published.match(/^\+ .*$/gm)).toEqual([
      "+ sandkasten-native-linux-x64-1@1.0.0",
      "+ sandkasten-sdk-1@1.0.0",
      "+ sandkasten-tools-1@1.0.0",
      "+ sandkasten-1@1.0.0",
    ]);
  });

  test("describes the release like the changelog", async () => {
    const name = "Take the notes from the changelog";
    await put("CHANGELOG.md", "# Changelog\n\n## 2.0.0\n\nNew.\n\n- More.\n\n## 1.0.0\n\nOld.\n");
    await step("publish", name, { GITHUB_REF_NAME: "v2.0.0" });
    expect((await readFile(join(directory, "notes.md"), "utf8")).trim()).toBe("New.\n\n- More.");
    await expect(step("publish", name, { GITHUB_REF_NAME: "v3.0.0" })).rejects.toThrow();
  });
});
