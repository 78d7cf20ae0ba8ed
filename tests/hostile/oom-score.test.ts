/** Threat: exhausting memory. When memory runs out, code is killed before the runner and the daemon, and cannot change that. */
import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { runtimeUnderTest } from "../support/runtime-under-test.ts";
import { hostPid } from "./probe/host-ids.ts";
import { isolationSuite } from "./probe/isolation-suite.ts";

/** Tries every file of a score, in every /proc that can be found. */
const LOWER_SCORE = `
import os
places = ["/proc", "/proc/1/root/proc", "/proc/self/root/proc", "/proc/self/cwd/../proc"]
places += [line.split()[4] for line in open("/proc/self/mountinfo") if " - proc " in line]
def score(): return int(open("/proc/self/oom_score_adj").read())
before = score()
for place in places:
    for process in ["self", "thread-self", str(os.getpid()), "self/task/%d" % os.getpid()]:
        for name, value in [("oom_score_adj", "0"), ("oom_score_adj", "999"), ("oom_score_adj", "-1000"), ("oom_adj", "0")]:
            try:
                with open(f"{place}/{process}/{name}", "w") as file: file.write(value)
                print("WROTE", place, process, name, value)
            except OSError: pass
for fd in range(256):
    try: os.write(os.open("/proc/1/fd/%d" % fd, os.O_WRONLY), b"0"); print("WROTE descriptor", fd)
    except OSError: pass
if os.fork() == 0: os._exit(0 if score() == before else 1)
print(before, score(), os.wait()[1])
`;

async function scoreOf(process: number | "self"): Promise<number> {
  return Number(await readFile(`/proc/${process}/oom_score_adj`, "utf8"));
}

/** Whether this process, and with it the launcher, may set the minimum for others. */
async function isPrivileged(): Promise<boolean> {
  const status = await readFile("/proc/self/status", "utf8");
  const effective = BigInt(`0x${/^CapEff:\s*(\w+)$/mu.exec(status)?.[1] ?? "0"}`);
  return ((effective >> 24n) & 1n) === 1n;
}

describe("hostile code", () => {
  const attacked = isolationSuite();

  test("cannot lower its oom_score_adj, or only in a separate kernel", () =>
    attacked(async ({ id, run, sh }, { machine }) => {
      const own = await scoreOf("self");
      const { output } = await run(["python3", "-c", LOWER_SCORE]);
      if (runtimeUnderTest() === "runsc")
        expect(output).toContain("WROTE /proc self oom_score_adj");
      else expect(output).toBe("1000 1000 0\n");
      // In the shell, and in the processes that it starts.
      const shell = await sh("echo 0 > /proc/$$/oom_score_adj; cat /proc/$$/oom_score_adj");
      expect(shell.stdout).toBe(runtimeUnderTest() === "runsc" ? "0\n" : "1000\n");
      // The machine's kernel would kill the sandbox before this process, but after code.
      const first = await scoreOf(await hostPid(machine, id));
      expect(first).toBeGreaterThan(own);
      expect(first).toBeLessThan(1000);
      const { facts } = await machine.backend.isolation(id);
      expect(facts.find(({ name }) => name === "oom_score")).toMatchObject({ enforced: true });
    }));

  test("as root inside can lower it as far as the report says", () =>
    attacked(async ({ id, run }, { machine }) => {
      await run(["python3", "-c", LOWER_SCORE]);
      const own = await scoreOf("self");
      const first = await scoreOf(await hostPid(machine, id));
      const { facts } = await machine.backend.isolation(id);
      const fact = facts.find(({ name }) => name === "oom_score");
      if (runtimeUnderTest() !== "runsc" && !(await isPrivileged())) {
        console.log("without CAP_SYS_RESOURCE there is no least score for code that is root");
        expect(fact).toMatchObject({ enforced: false });
        // So PID 1 never has a higher score than code can set.
        expect(first).toBe(0);
      } else {
        expect(fact).toMatchObject({ enforced: true });
        expect(first).toBeGreaterThan(own);
      }
    }, "root"));

  test("keeps the parts of /proc that programs need", () =>
    attacked(async ({ sh, run }) => {
      expect(
        (await sh("echo a > /dev/stdout; echo b > /proc/self/fd/1; cat <(echo c)")).stdout,
      ).toBe("a\nb\nc\n");
      expect((await sh("echo d | tee >(cat > f) > /proc/self/fd/2; sleep 0.2; cat f")).output).toBe(
        "d\nd\n",
      );
      const names = `import ctypes, threading
libc = ctypes.CDLL(None); libc.prctl(15, b"named", 0, 0, 0); print(open("/proc/self/comm").read(), end="")`;
      expect((await run(["python3", "-c", names])).output).toBe("named\n");
    }));
});
