/** Threats: leaked secrets and descriptors, replaced sockets and attacks on PID 1. Code cannot touch PID 1, its directory or its socket. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { aroundCase, warmUp } from "../support/oracles/around-case.ts";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import type { RuntimeOfRun } from "../support/runtime-under-test.ts";
import { SandboxMachine } from "../support/sandbox-machine.ts";
import { installAttack } from "../torture/attacks/install-attack.ts";
import { afterKillingAll, outcomeOf, readAll } from "../torture/attacks/outcome.ts";

let machine: SandboxMachine;
beforeAll(async () => {
  machine = await SandboxMachine.start({ runtime: runtimeUnderTest() });
  await warmUp(machine);
});
afterAll(() => machine[Symbol.asyncDispose]());

/** What succeeds without effect, for each runtime where something does. */
const HARMLESS: Partial<Record<RuntimeOfRun, RegExp>> = {
  // An engine's /proc shows all processes, and this of PID 1 to everyone.
  docker: /^REACHED reading \/proc\/1\/(?:task|oom_score_adj) 1\n/gmu,
  // So does gVisor's, with links to namespaces. It has no fs ids, so file threads have the code's
  // effective ids, which allow these calls; its scheduler is Go's and has no priorities or CPUs.
  runsc:
    /^REACHED (?:reading \/proc\/1\/(?:task|oom_score_adj|ns\/user) 1|(?:setpriority|sched_setscheduler|sched_setaffinity|ioprio_set) \d+)\n/gmu,
};

function reached(report: string): string {
  const harmless = HARMLESS[runtimeUnderTest()];
  return harmless === undefined ? report : report.replaceAll(harmless, "");
}

test("nothing sent to PID 1 or to its file threads has any effect (threat: attacks on PID 1)", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, run, sh } = await sandbox();
    const reach = await installAttack(channel, "reach-init");
    let attacking = true;
    let operations = 0;
    // The threads with the code's file rights must exist during the attack.
    const fileWork = Array.from({ length: 6 }, async (_, i) => {
      const content = Buffer.alloc(200_000, i);
      while (attacking) {
        await channel.writeFile(`file${i}`, content);
        expect((await readAll(channel, `file${i}`)).length).toBe(200_000);
        operations++;
      }
    });
    const ran = await run([reach, "2"]).finally(() => {
      attacking = false;
    });
    await Promise.all(fileWork);
    // Nothing was reached, and there was more than one thread to reach.
    expect(reached(ran.stdout)).toMatch(/^\d{4,} tries on ([2-9]|\d\d) threads\n$/u);
    expect(ran.exitCode).toBe(0);
    expect(operations).toBeGreaterThan(6);
    expect(await outcomeOf(channel.ping())).toBe("done");
    // Its limits are unchanged: it can still open files and start processes.
    const limits = String(await readAll(channel, "/proc/1/limits"));
    expect(limits).toMatch(/Max open files +\d{3,}/u);
    expect(await sh("echo alive")).toMatchObject({ exitCode: 0, stdout: "alive\n" });
  });
});

test("PID 1 survives `kill -9 -1` and goes on serving (threat: attacks on PID 1)", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const attacked = await sandbox();
    await attacked.sh("KEPT=1; sleep 1000 &");
    const next = await afterKillingAll(attacked, "echo ${KEPT-gone}; pgrep -c sleep");
    expect(next).toMatchObject({ stdout: "gone\n0\n", shellRestarted: true });
    expect((await attacked.channel.ping()).uptimeMs).toBeGreaterThan(0);
  });
});

test("a process that is stopped before it has become its program blocks nothing (threat: attacks on PID 1)", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, run, sh } = await sandbox();
    const stopper = await installAttack(channel, "stop-newcomers");
    await sh(`for i in 1 2; do ${stopper} 4 & done`, { timeoutMs: 4_000 });
    for (let i = 0; i < 25; i++) {
      const outcome = await outcomeOf(run(["true"], { timeoutMs: 200 }));
      expect(outcome, `process ${i}`).toBe("done");
    }
    expect(await outcomeOf(channel.ping())).toBe("done");
  });
});

test("the runner's directory can neither be listed nor changed, nor its pipes replaced (threat: replaced sockets)", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, sh } = await sandbox();
    const ran = await sh(
      `cd /run/sandkasten
       ls . && echo REACHED list
       out=$(basename $(readlink /proc/self/fd/1))
       for name in $out report cmd out err in prelude runner runner.sock; do
         [ -e $name ] && rm -f $name 2>/dev/null && echo REACHED remove $name
         mv $name $name.old 2>/dev/null && echo REACHED move $name
         ln -s /var/run/docker.sock $name.link 2>/dev/null && echo REACHED link $name
         ln -sf /var/run/docker.sock $name 2>/dev/null && echo REACHED replace $name
         chmod 777 $name 2>/dev/null && echo REACHED chmod $name
       done
       rm -f /.sandkasten/runner 2>/dev/null && echo REACHED remove the program
       : >new && echo REACHED create
       mkfifo pipe && echo REACHED mkfifo
       head -c 1 $out && echo REACHED read out
       mv /run/sandkasten /run/elsewhere && echo REACHED rename
       mount --bind /tmp /run/sandkasten && echo REACHED mount
       python3 - <<'END'
import socket
for name in ("/run/sandkasten/runner.sock", "/run/sandkasten/own.sock", "/run/own.sock"):
    try:
        socket.socket(socket.AF_UNIX).bind(name); print("REACHED bind", name)
    except OSError: pass
for name in ("/run/sandkasten/runner.sock", "/var/run/docker.sock", "/run/docker.sock"):
    try:
        socket.socket(socket.AF_UNIX).connect(name); print("REACHED connect", name)
    except OSError: pass
END
       cd /workspace`,
    );
    expect(ran.stdout).toBe("");
    expect(ran.exitCode).toBe(0);
    expect(await sh("echo alive")).toMatchObject({ exitCode: 0, stdout: "alive\n" });
    for (const name of ["report", "new", "runner", "runner.sock"])
      expect(
        await outcomeOf(channel.writeFile(`/run/sandkasten/${name}`, Buffer.from("x"))),
      ).toMatch(/PERMISSION_DENIED|NOT_A_FILE/u);
    expect(await outcomeOf(channel.remove("/run/sandkasten/report"))).toBe("PERMISSION_DENIED");
  });
});

test("the daemon never connects to a socket of code, whatever its name (threat: replaced sockets)", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { channel, run, sh } = await sandbox();
    await sh("mkdir -p /tmp/sandboxes /workspace/sandboxes");
    const listening = run(
      [
        "python3",
        "-c",
        `import socket, select
own = []
for name in ("/tmp/runner.sock", "/workspace/runner.sock", "/home/sandbox/runner.sock", "\\0runner", "\\0sandkasten"):
    s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen(); own.append(s)
print("listening", flush=True)
print("dialled" if select.select(own, [], [], 1)[0] else "quiet")`,
      ],
      { timeoutMs: 10_000 },
    );
    // New connections, while it listens.
    for (let i = 0; i < 5; i++) {
      const again = await machine.reopen();
      const second = await again.open((await again.list())[0]!.id);
      await second.ping();
      second.close();
    }
    expect((await listening).stdout).toBe("listening\nquiet\n");
    expect(await outcomeOf(channel.ping())).toBe("done");
  });
});

test("a command inherits no descriptor and no secret of the runner (threat: leaked secrets and descriptors)", async () => {
  await aroundCase(machine, async ({ sandbox }) => {
    const { run, sh } = await sandbox();
    // `ls` itself holds 3, on the directory it lists.
    const descriptors = (text: string): string[] =>
      [...text.matchAll(/ (\d+) -> (.*)$/gmu)]
        .map(
          ([, fd, target]) =>
            `${fd} ${target?.replace(/(?<=-)[0-9a-f]{32}|\d{2,}|(?<=\[)\d/u, "N")}`,
        )
        .filter((line) => !/^3 \/proc\/\d+\/fd$|^3 \/proc\/N\/fd$/u.test(line));
    const own = await run(["ls", "-l", "/proc/self/fd"]);
    expect(descriptors(own.stdout)).toEqual(["0 /dev/null", "1 pipe:[N]", "2 pipe:[N]"]);
    const inShell = await sh("ls -l /proc/self/fd");
    expect(descriptors(inShell.stdout)).toEqual([
      "0 /dev/null",
      "1 /run/sandkasten/out-N",
      "2 /run/sandkasten/err-N",
    ]);
    // In a container of an engine there are no cgroups to identify a command's processes by, but
    // this mark.
    const mark = runtimeUnderTest() === "docker" ? /^SANDKASTEN_EXEC_ID=.*$/mu : /^$/u;
    expect((await sh("env")).stdout.replace(mark, "")).not.toMatch(/KEY|TOKEN|SECRET|SANDKASTEN/iu);
  });
});
