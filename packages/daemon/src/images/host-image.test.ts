import { execFile } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { MOUNT_POINTS } from "./mount-points.ts";
import { storeFixture } from "./testing/store-fixture.ts";
import type { StoreFixture } from "./testing/store-fixture.ts";

const run = promisify(execFile);

/** A machine with secrets in the usual places. */
function fakeMachine(fixture: StoreFixture, options: { readonly merged: boolean }): string {
  const machine = join(fixture.directory, "machine");
  for (const path of [
    "usr/bin",
    "usr/lib",
    "etc/alternatives",
    "etc/ssl/certs",
    "etc/ssl/private",
    "root",
    "home/me",
    "var/lib",
  ]) {
    mkdirSync(join(machine, path), { recursive: true });
  }
  for (const path of [
    "etc/shadow",
    "etc/passwd",
    "etc/hosts",
    "etc/resolv.conf",
    "etc/ssl/private/key.pem",
    "root/.ssh",
    "home/me/x",
    "var/lib/x",
  ]) {
    writeFileSync(join(machine, path), "machine-secret");
  }
  writeFileSync(join(machine, "usr/bin/bash"), "");
  writeFileSync(join(machine, "usr/lib/os-release"), "ID=fake\n");
  writeFileSync(join(machine, "etc/ld.so.cache"), "cache");
  writeFileSync(join(machine, "etc/ssl/certs/ca-certificates.crt"), "public certificates");
  symlinkSync("/usr/bin/mawk", join(machine, "etc/alternatives/awk"));
  symlinkSync("/etc/shadow", join(machine, "etc/alternatives/secret"));
  symlinkSync("../../root/.ssh", join(machine, "etc/alternatives/relative"));
  symlinkSync("/usr/../etc/shadow", join(machine, "etc/alternatives/sly"));
  symlinkSync("/usr/share/ca/one.crt", join(machine, "etc/ssl/certs/one.pem"));
  symlinkSync("one.pem", join(machine, "etc/ssl/certs/0123abcd.0"));
  symlinkSync("ca-certificates.crt", join(machine, "etc/ssl/certs/ffff0000.0"));
  symlinkSync("/usr/share/zoneinfo/Europe/Berlin", join(machine, "etc/localtime"));
  if (options.merged) {
    symlinkSync("usr/bin", join(machine, "bin"));
    symlinkSync("usr/lib", join(machine, "lib"));
    symlinkSync("/etc", join(machine, "lib64"));
  } else {
    for (const name of ["bin", "sbin", "lib"]) mkdirSync(join(machine, name));
  }
  return machine;
}

describe("the host image", () => {
  test("has real mount points, the usual links and nothing private of the machine", async () => {
    await using fixture = await storeFixture();
    const machine = fakeMachine(fixture, { merged: true });
    const store = await fixture.open({}, { machine });
    const { path, binds } = await store.rootfs("host");
    expect(await store.inspect("host")).toMatchObject({
      reference: "host",
      source: "host",
      env: {},
      shared: true,
    });
    expect(binds).toEqual([{ from: join(machine, "usr"), to: "/usr" }]);
    for (const mountPoint of MOUNT_POINTS)
      expect(lstatSync(join(path, mountPoint.path)).isDirectory()).toBe(true);
    expect(lstatSync(join(path, "usr")).isDirectory()).toBe(true);
    expect([
      readlinkSync(join(path, "bin")),
      readlinkSync(join(path, "lib")),
      readlinkSync(join(path, "work")),
    ]).toEqual(["usr/bin", "usr/lib", "workspace"]);
    expect(existsSync(join(path, "lib64"))).toBe(false);
    expect(readFileSync(join(path, "etc/passwd"), "utf8")).toContain(
      "sandbox:x:1000:1000:Sandbox:/home/sandbox:/bin/bash",
    );
    expect(readdirSync(join(path, "etc/alternatives"))).toEqual(["awk"]);
    expect(readdirSync(join(path, "etc/ssl/certs")).sort()).toEqual([
      "0123abcd.0",
      "ca-certificates.crt",
      "one.pem",
    ]);
    expect(readlinkSync(join(path, "etc/localtime"))).toBe("/usr/share/zoneinfo/Europe/Berlin");
    const { stdout } = await run("grep", ["-rl", "machine-secret", path]).catch(
      (error: { stdout: string }) => error,
    );
    expect(stdout).toBe("");
  });

  test("includes the directories of a machine that has not merged them", async () => {
    await using fixture = await storeFixture();
    const machine = fakeMachine(fixture, { merged: false });
    const { path, binds } = await (await fixture.open({}, { machine })).rootfs("host");
    expect(binds.map(({ to }) => to)).toEqual(["/usr", "/bin", "/sbin", "/lib"]);
    for (const { from, to } of binds) {
      expect(from).toBe(join(machine, to));
      expect(lstatSync(join(path, to)).isDirectory()).toBe(true);
    }
  });

  test("is created once, again when the machine changes, and the old one is collected when unused", async () => {
    await using fixture = await storeFixture();
    const machine = fakeMachine(fixture, { merged: true });
    const store = await fixture.open({}, { machine });
    const [first, same] = await Promise.all([store.rootfs("host"), store.rootfs("host")]);
    expect(same.path).toBe(first.path);
    const made = lstatSync(first.path).ctimeMs;
    expect(lstatSync((await store.rootfs("host")).path).ctimeMs).toBe(made);

    utimesSync(join(machine, "etc/ld.so.cache"), 1, 1);
    const second = await store.rootfs("host");
    expect(second.digest).not.toBe(first.digest);
    expect(await store.collectGarbage(new Set([first.digest]))).toEqual({
      removed: 0,
      freedBytes: 0,
    });
    expect(existsSync(first.path)).toBe(true);
    expect((await store.collectGarbage(new Set())).removed).toBe(1);
    expect([existsSync(first.path), existsSync(second.path)]).toEqual([false, true]);
  });

  test("of this machine runs its programs and does not know its users", async () => {
    await using fixture = await storeFixture();
    const { path, binds } = await fixture.store.rootfs("host");
    const mounts = binds.map(({ from, to }) => `mount --rbind ${from} '${path}${to}'`).join(" && ");
    const inside = `id -un; pwd -P; ls -A /home /root /var/lib /etc/ssl; test -e /etc/shadow || echo no shadow; awk 'BEGIN { print "awk" }'`;
    const { stdout } = await run("unshare", [
      "--mount",
      "--propagation=private",
      "sh",
      "-c",
      `${mounts} && cd / && exec chroot --userspec=1000:1000 '${path}' /bin/sh -c "$1"`,
      "sh",
      `cd /work; ${inside}`,
    ]).catch((error: { stdout: string; stderr: string }) => ({
      stdout: error.stdout + error.stderr,
    }));
    expect(stdout.split("\n")).toEqual(
      expect.arrayContaining(["sandbox", "/workspace", "no shadow", "awk"]),
    );
    expect(stdout).toContain("/home:\nsandbox\n");
    expect(stdout).toContain("/var/lib:\n");
    expect(stdout).not.toContain("private");
  });
});
