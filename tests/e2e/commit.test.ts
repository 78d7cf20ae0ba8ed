/** Images created from sessions, with real sandboxes. */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SandboxClient } from "@sandkasten/sdk";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fillSmallRoot, packTree } from "../support/images.ts";
import { TestDaemon } from "../support/test-daemon.ts";

const KEYS = { bob: "bobs-key-0123456789", eve: "eves-key-0123456789" };

let daemon: TestDaemon;
let scratch: string;
let bob: SandboxClient;
let eve: SandboxClient;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "sandkasten-e2e-commit-"));
  const apiKeys = Object.entries(KEYS).map(([name, key]) => `${name}=${key}`);
  daemon = await TestDaemon.start({
    settings: {
      API_KEY: "administrators-key",
      API_KEYS: apiKeys.join(","),
      QUOTAS_MAX_IMAGE_BYTES: String(32 << 20),
    },
  });
  const baseUrl = daemon.url;
  bob = new SandboxClient({ baseUrl, apiKey: KEYS.bob });
  eve = new SandboxClient({ baseUrl, apiKey: KEYS.eve });
  const root = join(scratch, "root");
  await fillSmallRoot(root, "busybox");
  await bob.images.import("base:1", await readFile(await packTree(root)));
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

const refusal = (code: string) => expect.objectContaining({ code });

describe("commit", () => {
  test("keeps installed files, and omits mounts", async () => {
    await using session = await bob.createSession({
      image: "base:1",
      profile: "root",
      workspaces: [{ id: "data", path: "/opt/[data]" }],
    });
    const { exitCode, output } = await session.exec(
      [
        "set -e",
        "mkdir -p /opt/tool /root/.config /opt/other",
        "printf '#!/bin/sh\\necho tool works\\n' > /opt/tool/run; chmod 4755 /opt/tool/run",
        "busybox ln -s /etc/shadow /opt/link; busybox rm /bin/yes; echo home > /root/.config/x",
        "for at in /workspace /tmp /home/sandbox '/opt/[data]'; do echo secret > \"$at/left-out\"; done",
        "echo kept > /opt/other/x",
      ].join("\n"),
    );
    expect([exitCode, output]).toEqual([0, ""]);
    const image = await session.commit("tools:1");
    expect(image).toMatchObject({ reference: "tools:1", source: "rootfs", shared: false });
    expect((await session.exec("echo goes on")).output).toBe("goes on\n");

    await using made = await bob.createSession({ image: "tools:1" });
    const seen = await made.exec(
      "/opt/tool/run; cat /opt/other/x; ls -l /opt/tool/run | cut -c1-10; ls -d /bin/yes; " +
        "busybox find / -xdev -name left-out; busybox find /workspace /tmp /home -name left-out; ls /opt",
    );
    expect(seen.stdout).toContain("tool works\nkept\n");
    // Programs of an image never change their user.
    expect(seen.stdout).not.toContain("-rws");
    expect(seen.stdout).not.toContain("left-out");
    expect(seen.output).toContain("/bin/yes: No such file");
  });

  test("requires the session's owner, who also owns the image", async () => {
    await using session = await bob.createSession({ image: "base:1", profile: "root" });
    const { status, body } = await daemon.call(
      "POST",
      `/v1/sessions/${session.id}/commit`,
      { reference: "stolen:1" },
      { authorization: `Bearer ${KEYS.eve}` },
    );
    expect([status, body]).toEqual([
      404,
      expect.objectContaining({ error_code: "SESSION_NOT_FOUND" }),
    ]);
    await session.commit("private:1");
    expect((await eve.images.list()).map(({ reference }) => reference)).toEqual(["host"]);
    await expect(eve.createSession({ image: "private:1" })).rejects.toEqual(
      refusal("INVALID_IMAGE"),
    );
  });

  test.each(["host", "../escape", "a b", "UPPER", "x@sha256:0", "/etc/passwd"])(
    "refuses the name %j",
    async (name) => {
      await using session = await bob.createSession({ image: "base:1", profile: "root" });
      await expect(session.commit(name)).rejects.toEqual(refusal("INVALID_IMAGE"));
    },
  );

  test("refuses a read-only root, and the host image", async () => {
    await using restricted = await bob.createSession({ image: "base:1" });
    await expect(restricted.commit("x:1")).rejects.toEqual(refusal("UNSUPPORTED"));
    await using host = await bob.createSession({ image: "host", profile: "root" });
    await expect(host.commit("x:1")).rejects.toEqual(refusal("UNSUPPORTED"));
  });

  test("stays within the quota, even for a file that only claims to be large, and leaves nothing", async () => {
    await using session = await bob.createSession({ image: "base:1", profile: "root" });
    await session.exec(
      "busybox truncate -s 40G /opt/sparse || busybox dd if=/dev/zero of=/sparse bs=1 count=1 seek=40G",
    );
    const refused = session.commit("big:1");
    await expect(refused).rejects.toEqual(refusal("QUOTA_EXCEEDED"));
    expect((await bob.images.list()).map(({ reference }) => reference)).not.toContain("big:1");
    const left = (await readdir(daemon.dataDir, { recursive: true })).filter((path) =>
      /(^|\/)import-/.test(path),
    );
    expect(left).toEqual([]);
  });
});

describe("a snapshot", () => {
  test("contains the root, the workspace and the home directory, and replaces the previous one", async () => {
    const { snapshots } = bob;
    await using session = await bob.createSession({ image: "base:1", profile: "root" });
    await session.exec(
      "mkdir -p /opt/tool dir; echo tool > /opt/tool/x; echo old > dir/file; chmod 700 dir; " +
        "busybox ln -s file dir/link; echo home > /home/sandbox/.note",
    );
    await snapshots.create(session, { id: "tools", metadata: { step: "1" } });
    const images = (await bob.images.list()).length;
    await session.exec("echo new > dir/file");
    const taken = await snapshots.create(session, { id: "tools", metadata: { step: "2" } });
    expect(taken).toMatchObject({ id: "tools", sessionId: session.id, metadata: { step: "2" } });
    expect(await snapshots.list()).toEqual([taken]);
    // The first session's files are gone.
    expect(await bob.images.list()).toHaveLength(images);
    const stored = await Array.fromAsync(bob.workspaces.files("snapshot-tools").list("."));
    expect(stored).toHaveLength(3);
    await session.exec("echo later > dir/file");

    await using restored = await snapshots.restore("tools", { ttlSeconds: 60 });
    const seen = await restored.exec(
      "cat /opt/tool/x dir/file dir/link /home/sandbox/.note; ls -ld dir | cut -c1-10",
    );
    expect(seen.output).toBe("tool\nnew\nnew\nhome\ndrwx------\n");
    expect(restored).toMatchObject({ profile: "root", ttlSeconds: 60, image: taken.image });
    await restored.destroy();

    expect(await eve.snapshots.list()).toEqual([]);
    await expect(eve.snapshots.restore("tools")).rejects.toEqual(refusal("FILE_NOT_FOUND"));
    await eve.snapshots.delete("tools");
    expect(await snapshots.get("tools")).toEqual(taken);
    await snapshots.delete("tools");
    await snapshots.delete("tools");
    expect(await snapshots.list()).toEqual([]);
    expect(await bob.images.list()).toHaveLength(images - 1);
    expect((await bob.workspaces.list()).map(({ id }) => id)).not.toContain("snapshot-tools");
  });

  test("that fails leaves nothing, and keeps the previous one", async () => {
    const { snapshots } = bob;
    await using session = await bob.createSession({ image: "base:1", profile: "root" });
    await session.exec("echo good > file");
    const good = await snapshots.create(session, { id: "good" });
    const before = await Array.fromAsync(bob.workspaces.files("snapshot-good").list("."));
    await session.exec("echo bad > file; busybox dd if=/dev/zero of=/sparse bs=1 count=1 seek=40G");
    for (const id of ["good", "fresh"])
      await expect(snapshots.create(session, { id })).rejects.toEqual(refusal("QUOTA_EXCEEDED"));
    expect(await snapshots.list()).toEqual([good]);
    const names = (await bob.workspaces.list()).map(({ id }) => id);
    expect(names).not.toContain("snapshot-fresh");
    const after = await Array.fromAsync(bob.workspaces.files("snapshot-good").list("."));
    expect(after.map(({ name }) => name)).toEqual(before.map(({ name }) => name));
    await using restored = await snapshots.restore("good");
    expect((await restored.exec("cat file")).output).toBe("good\n");
    await restored.destroy();
    await snapshots.delete("good");
  });
});
