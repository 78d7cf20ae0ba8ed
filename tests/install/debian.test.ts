/** The Debian package on a machine with its dependencies. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CleanMachine } from "../support/clean-machine.ts";
import { ReleaseBuild } from "../support/release-build.ts";

const TIMEOUT_MS = 15 * 60_000;
const UNIT = join(import.meta.dirname, "../../deploy/debian/sandkasten.service");

/** The unit's restrictions, as far as a program can apply them to itself. */
function restricted(): string {
  const unit = readFileSync(UNIT, "utf8");
  const given = /^CapabilityBoundingSet=~(.*)$/m.exec(unit)?.[1] ?? "";
  const dropped = given.split(" ").map((name) => `-${name.replace("CAP_", "").toLowerCase()}`);
  expect(dropped.length).toBeGreaterThan(10);
  const command = /^ExecStart=(.*)$/m.exec(unit)?.[1] ?? "";
  return `setpriv --no-new-privs --bounding-set=${dropped.join(",")} ${command}`;
}

let release: ReleaseBuild;
let machine: CleanMachine;
beforeAll(async () => {
  release = await ReleaseBuild.create("debian");
  machine = await CleanMachine.create();
  await machine.copy(await release.file("sandkasten_*_amd64.deb"), "root/sandkasten.deb");
}, TIMEOUT_MS);
afterAll(async () => {
  await machine?.[Symbol.asyncDispose]();
  await release?.[Symbol.asyncDispose]();
});

describe("sandkasten from Debian's package", { timeout: TIMEOUT_MS }, () => {
  test("installs with dpkg, and the daemon works with what its unit leaves it", async () => {
    const said = await machine.run(`
      refuse command -v node
      dpkg --install sandkasten.deb
      dpkg --verify sandkasten
      stat --format '%a %U' /etc/sandkasten/sandkasten.yaml
      ${restricted()} >daemon.log 2>&1 &
      daemon=$!
      for _ in $(seq 300); do
        if curl -sf http://127.0.0.1:8080/readyz >/dev/null; then break; fi
        kill -0 $daemon || { cat daemon.log; exit 1; }
        sleep 0.1
      done
      grep CapBnd /proc/$daemon/status
      sandkasten run -- 'echo hello from $PWD'
      sandkasten run -- python3 -c 'print(6 * 7)'
      kill $daemon
      wait $daemon
    `);
    expect(said).toContain("600 root\n");
    expect(said).toContain("hello from /workspace\n42\n");
    // CAP_SYS_MODULE is 16, CAP_SYS_ADMIN is 21.
    const capabilities = BigInt(`0x${/CapBnd:\s+(\w+)/.exec(said)?.[1]}`);
    expect(capabilities & (1n << 16n)).toBe(0n);
    expect(capabilities & (1n << 21n)).not.toBe(0n);
  });

  test("has a unit that systemd finds no fault with", async () => {
    const said = await machine.run(`
      systemd-analyze verify /usr/lib/systemd/system/sandkasten.service 2>&1
      systemd-analyze security --offline=yes --no-pager sandkasten.service
    `);
    expect(said).not.toMatch(/sandkasten\.service:\d+:/);
    const exposure = Number(/exposure level for sandkasten\.service: ([\d.]+)/.exec(said)?.[1]);
    expect(exposure).toBeLessThan(8.5);
  });

  test("keeps the configuration when it is removed, and nothing when it is purged", async () => {
    const said = await machine.run(`
      dpkg --remove sandkasten
      ls /etc/sandkasten
      refuse ls /usr/bin/sandkasten
      refuse ls /usr/lib/sandkasten/dist
      dpkg --purge sandkasten
      refuse ls /etc/sandkasten
      refuse ls /var/lib/sandkasten
      echo purged
    `);
    expect(said).toContain("sandkasten.yaml\n");
    expect(said).toContain("purged\n");
  });
});
