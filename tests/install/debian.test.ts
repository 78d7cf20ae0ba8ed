/** The Debian package on a machine with its dependencies. */
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BootedMachine } from "../support/booted-machine.ts";
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

/** Started by the unit itself, so that it has the same restrictions: prints how calls fail. */
const PROBE = `
import ctypes, errno, socket, time
libc = ctypes.CDLL(None, use_errno=True)
MODIFY_LDT, INIT_MODULE, SWAPON = 154, 175, 167

def call(number, *args):
    if libc.syscall(number, *args) == -1:
        raise OSError(ctypes.get_errno(), "")

def show(name, attempt):
    try:
        attempt()
        print(name, "allowed")
    except OSError as error:
        print(name, errno.errorcode[error.errno])

show("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
show("segments", lambda: call(MODIFY_LDT, 0, None, 0))
show("module", lambda: call(INIT_MODULE, None, 0, None))
show("swap", lambda: call(SWAPON, b"/none", 0))
show("clock", lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()))
show("internet socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
`;

const PROBE_START = `
[Service]
ExecStartPost=/bin/sh -c 'python3 /root/probe.py >/root/probe.log'
`;

/** Bash that waits until a service answers. */
const UNTIL_READY = `
until_ready() {
  curl --silent --show-error --fail --output /dev/null --retry 100 --retry-delay 1 --retry-connrefused http://127.0.0.1:8080/readyz
}
`;

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
  test("installs with dpkg, and the daemon works with the privileges that its unit leaves", async () => {
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

  test("has a valid systemd unit", async () => {
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

  describe("on a machine with systemd", () => {
    let booted: BootedMachine;
    let session: string;
    beforeAll(async () => {
      booted = await BootedMachine.boot(machine);
    }, TIMEOUT_MS);
    afterAll(async () => await booted?.[Symbol.asyncDispose]());

    test("starts with its installation, and runs commands", async () => {
      const said = await booted.run(`
        ${UNTIL_READY}
        dpkg --install sandkasten.deb
        systemctl is-enabled sandkasten
        until_ready
        systemctl is-active sandkasten
        sandkasten create
        sandkasten run -- 'echo hello from $PWD'
      `);
      expect(said).toContain("\nenabled\nactive\n");
      expect(said).toContain("hello from /workspace\n");
      session = /^ses_\w+$/m.exec(said)?.[0] ?? "";
      expect(session).not.toBe("");
    });

    test("keeps a session, its shell and its programs while the service restarts, stops and is killed", async () => {
      const said = await booted.run(`
        ${UNTIL_READY}
        main_pid() { systemctl show --property MainPID --value sandkasten; }
        sandkasten exec ${session} 'cd /tmp; sleep 100000 & echo "shell $$"'
        systemctl restart sandkasten
        until_ready
        sandkasten exec ${session} 'echo "restarted: $PWD, shell $$, $(jobs -r)"'
        systemctl stop sandkasten
        refuse systemctl is-active sandkasten
        refuse curl --silent http://127.0.0.1:8080/readyz
        grep --quiet --text '[s]leep.100000' /proc/[0-9]*/cmdline
        systemctl start sandkasten
        until_ready
        sandkasten exec ${session} 'echo "stopped: $PWD, shell $$, $(jobs -r)"'
        killed=$(main_pid)
        kill -KILL "$killed"
        for _ in $(seq 300); do
          now=$(main_pid)
          [ "$now" = 0 ] || [ "$now" = "$killed" ] || break
          sleep 0.1
        done
        [ "$now" != "$killed" ]
        until_ready
        sandkasten exec ${session} 'echo "killed: $PWD, shell $$, $(jobs -r)"'
      `);
      const shell = /^shell \d+$/m.exec(said)?.[0];
      for (const event of ["restarted", "stopped", "killed"])
        expect(said).toMatch(new RegExp(`^${event}: /tmp, ${shell}, .*Running.*sleep 100000`, "m"));
    });

    test("restricts the daemon as its unit says", async () => {
      const dropIn = "etc/systemd/system/sandkasten.service.d";
      await mkdir(join(machine.root, dropIn));
      await writeFile(join(machine.root, dropIn, "probe.conf"), PROBE_START);
      await writeFile(join(machine.root, "root/probe.py"), PROBE);
      const said = await booted.run(`
        ${UNTIL_READY}
        daemon=$(systemctl show --property MainPID --value sandkasten)
        grep --extended-regexp '^(CapBnd|CapEff|NoNewPrivs):' "/proc/$daemon/status"
        systemctl daemon-reload
        systemctl restart sandkasten
        until_ready
        cat probe.log
        rm --recursive /${dropIn}
      `);
      expect(said).toContain("NoNewPrivs:\t1\n");
      const capabilities = [...said.matchAll(/^Cap\w+:\t(\w+)$/gm)].map(([, bits]) => bits ?? "");
      expect(capabilities).toHaveLength(2);
      for (const bits of capabilities) {
        // CAP_SYS_MODULE is 16, CAP_SYS_RAWIO 17, CAP_SYS_ADMIN 21, CAP_SYS_BOOT 22, CAP_SYS_TIME 25.
        const has = (bit: bigint) => (BigInt(`0x${bits}`) & (1n << bit)) !== 0n;
        expect([16n, 17n, 21n, 22n, 25n].filter(has)).toEqual([21n]);
      }
      expect(said.slice(said.indexOf("packet socket"))).toBe(
        [
          "packet socket EAFNOSUPPORT",
          "segments EPERM",
          "module EPERM",
          "swap EPERM",
          "clock EPERM",
          "internet socket allowed",
          "",
        ].join("\n"),
      );
    });

    test("ends the service and its sandboxes when the package is purged", async () => {
      const said = await booted.run(`
        dpkg --purge sandkasten
        refuse systemctl cat sandkasten
        refuse ls /var/lib/sandkasten
        refuse grep --text '[s]leep.100000' /proc/[0-9]*/cmdline
        systemctl --failed --no-legend
        echo purged
      `);
      expect(said).toMatch(/\npurged\n$/);
    });
  });
});
