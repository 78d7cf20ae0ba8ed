import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { OciConfig } from "./oci-spec.ts";
import { type Runtime, TestBundle, whyNoContainers } from "./testing/test-bundle.ts";
import { argumentRules } from "../../container/seccomp/argument-rules.ts";
import { DENIALS, ERRNO } from "../../container/seccomp/deny-table.ts";
import { X86_64_SYSCALLS } from "../../container/seccomp/syscall-table.generated.ts";

/** Errors that no kernel returns: they show that the filter answered, not a missing privilege. */
const MARKS = { default: 3038, EPERM: 3001, EPROTONOSUPPORT: 3093, EAFNOSUPPORT: 3097 } as const;

/** Every argument is an invalid descriptor, pointer, id and flag, so allowed calls do no harm. */
const BAD_ARGUMENTS = "-1,-1,-1,-1,-1,-1";

const SIGSYS = 31;
const CLONE_CHILD_SIGNAL = 17;

function number(name: string): number {
  const found = X86_64_SYSCALLS[name];
  if (found === undefined) throw new Error(`no system call is called ${name}`);
  return found;
}

function marked(config: OciConfig): OciConfig {
  const { seccomp } = config.linux;
  const marks = new Map<number | undefined, number>([
    [ERRNO.EPERM, MARKS.EPERM],
    [ERRNO.EPROTONOSUPPORT, MARKS.EPROTONOSUPPORT],
    [ERRNO.EAFNOSUPPORT, MARKS.EAFNOSUPPORT],
  ]);
  const syscalls = seccomp.syscalls.map((rule) => {
    const mark = marks.get(rule.errnoRet);
    return mark === undefined ? rule : { ...rule, errnoRet: mark };
  });
  return {
    ...config,
    linux: { ...config.linux, seccomp: { ...seccomp, defaultErrnoRet: MARKS.default, syscalls } },
  };
}

const x64Only =
  process.arch === "x64" ? undefined : "the numbers that are tried are those of x86_64";

describe.each(["crun", "runc"] as const)("seccomp under %s", (runtime: Runtime) => {
  const reason = whyNoContainers(runtime) ?? x64Only;
  if (reason !== undefined)
    process.stderr.write(`seccomp under ${runtime} is not tested: ${reason}\n`);

  describe.skipIf(reason !== undefined)("a restricted sandbox", () => {
    let bundle: TestBundle;
    beforeAll(async () => {
      bundle = await TestBundle.create();
    });
    afterAll(async () => {
      await bundle?.remove();
    });

    /** Tries the calls as uid 1000 and returns the outcome of each, such as `errno=1`. */
    async function attempt(
      calls: Readonly<Record<string, string>>,
      config = bundle.config(),
    ): Promise<Record<string, string>> {
      const end = await bundle.run(runtime, config, [
        "try",
        ...Object.entries(calls).map(([label, call]) => `${label}=${call}`),
      ]);
      expect(end).toMatchObject({ exitCode: 0, stderr: "" });
      return Object.fromEntries(
        end.stdout
          .trimEnd()
          .split("\n")
          .map((line) => line.split(" ") as [string, string]),
      );
    }

    test("returns the errno of the deny table for every denied call", async () => {
      const denied = DENIALS.flatMap(({ syscalls, errno }) =>
        syscalls.map((name) => [name, errno] as const),
      );
      const outcomes = await attempt(
        Object.fromEntries(denied.map(([name]) => [name, `${number(name)}:${BAD_ARGUMENTS}`])),
      );
      expect(outcomes).toEqual(
        Object.fromEntries(denied.map(([name, errno]) => [name, `errno=${ERRNO[errno]}`])),
      );
    });

    test("refuses exactly the denied calls, by the filter itself", async () => {
      const byArguments = new Set(argumentRules().map((rule) => rule.syscall));
      const names = Object.keys(X86_64_SYSCALLS).filter((name) => !byArguments.has(name));
      const outcomes = await attempt(
        Object.fromEntries(names.map((name) => [name, `${number(name)}:${BAD_ARGUMENTS}`])),
        marked(bundle.config()),
      );
      const marks = Object.values(MARKS).map((mark) => `errno=${mark}`);
      const refused = names.filter((name) => marks.includes(outcomes[name] ?? ""));
      expect(Object.keys(outcomes)).toEqual(names);
      expect(refused.sort()).toEqual(DENIALS.flatMap((denial) => denial.syscalls).sort());
    });

    test("lets clone create processes but no namespaces, whatever the register's upper half contains", async () => {
      const flags = {
        newns: 0x0002_0000,
        newcgroup: 0x0200_0000,
        newuts: 0x0400_0000,
        newipc: 0x0800_0000,
        newuser: 0x1000_0000,
        newpid: 0x2000_0000,
        newnet: 0x4000_0000,
      };
      const clone = (value: number): string => `${number("clone")}:${value},0,0,0,0`;
      const outcomes = await attempt({
        ...Object.fromEntries(
          Object.entries(flags).map(([name, flag]) => [name, clone(flag + CLONE_CHILD_SIGNAL)]),
        ),
        all: clone(0x7e02_0000 + CLONE_CHILD_SIGNAL),
        upperHalf: clone(0x1_1000_0000 + CLONE_CHILD_SIGNAL),
        none: clone(CLONE_CHILD_SIGNAL),
      });
      const { none, ...withFlags } = outcomes;
      expect(none).toMatch(/^ok=\d+$/);
      expect(Object.values(withFlags)).toEqual(Array(9).fill(`errno=${ERRNO.EPERM}`));
    });

    test("creates sockets of the families UNIX, INET, INET6 and NETLINK/ROUTE only", async () => {
      const socket = (family: number, type: number, protocol: number): string =>
        `${number("socket")}:${family},${type},${protocol}`;
      const others = Array.from({ length: 64 }, (_, family) => family).filter(
        (family) => ![1, 2, 10, 16].includes(family),
      );
      const protocols = Array.from({ length: 63 }, (_, index) => index + 1);
      const refused = {
        ...Object.fromEntries(others.map((family) => [`family${family}`, socket(family, 2, 0)])),
        ...Object.fromEntries(
          protocols.map((protocol) => [`netlink${protocol}`, socket(16, 3, protocol)]),
        ),
        upperHalf: socket(0x1_0000_0000 + 38, 5, 0),
      };
      expect(await attempt(refused)).toEqual(
        Object.fromEntries(
          Object.keys(refused).map((label) => [label, `errno=${ERRNO.EAFNOSUPPORT}`]),
        ),
      );
      const allowed = await attempt({
        unix: socket(1, 1, 0),
        inet: socket(2, 1, 0),
        inet6: socket(10, 2, 0),
        route: socket(16, 3, 0),
        upperHalf: socket(0x1_0000_0000 + 2, 1, 0),
      });
      expect(Object.values(allowed).filter((outcome) => !outcome.startsWith("ok="))).toEqual([]);
    });

    test("supports TCP and UDP, and no other internet protocol", async () => {
      const socket = (family: number, type: number, protocol: number): string =>
        `${number("socket")}:${family},${type},${protocol}`;
      const both = (type: number, protocol: number): readonly string[] =>
        [2, 10].map((family) => socket(family, type, protocol));
      const CLOEXEC = 0o2000000;
      const outcomes = async (calls: readonly string[]): Promise<readonly string[]> => {
        const labelled = Object.fromEntries(calls.map((call, index) => [`call${index}`, call]));
        return Object.values(await attempt(labelled, marked(bundle.config())));
      };
      const allowed = await outcomes([
        ...both(1, 0),
        ...both(1, 6),
        ...both(2, 0),
        ...both(2 + CLOEXEC, 17),
      ]);
      expect(allowed.filter((outcome) => !outcome.startsWith("ok="))).toEqual([]);
      // MPTCP, SCTP, UDP-Lite and ICMP: programs fall back.
      const fallback = [...both(1, 262), ...both(1, 132), ...both(2, 136), ...both(2, 1)];
      expect(new Set(await outcomes([...fallback, ...both(2, 58)]))).toEqual(
        new Set([`errno=${MARKS.EPROTONOSUPPORT}`]),
      );
      expect(new Set(await outcomes([...both(3, 255), ...both(3, 1), ...both(3, 0)]))).toEqual(
        new Set([`errno=${MARKS.EPERM}`]),
      );
      const types = Array.from({ length: 16 }, (_, type) => type).filter(
        (type) => ![1, 2, 3].includes(type),
      );
      const protocols = Array.from({ length: 300 }, (_, protocol) => protocol).filter(
        (protocol) => ![0, 1, 6, 17, 58, 132, 136, 262].includes(protocol),
      );
      const rare = [
        ...types.flatMap((type) => both(type, 0)),
        ...protocols.flatMap((protocol) => [...both(1, protocol), ...both(2, protocol)]),
      ];
      expect(new Set(await outcomes(rare))).toEqual(new Set([`errno=${MARKS.default}`]));
    });

    test("creates pairs of UNIX sockets only", async () => {
      const pair = (family: number | string): string => `${number("socketpair")}:${family},1,0,0`;
      const families = Array.from({ length: 64 }, (_, family) => family).filter(
        (family) => family !== 1,
      );
      const refused = await attempt({
        ...Object.fromEntries(families.map((family) => [`family${family}`, pair(family)])),
        upperHalf: pair("0x10000001e"),
      });
      expect(new Set(Object.values(refused))).toEqual(new Set([`errno=${ERRNO.ENOSYS}`]));
      // EFAULT: the kernel was asked, and has nowhere to put the pair.
      expect(await attempt({ unix: pair(1), upperHalf: pair("0x100000001") })).toEqual({
        unix: "errno=14",
        upperHalf: "errno=14",
      });
    });

    test("refuses TIOCSTI, TIOCLINUX and TIOCSETD, and no other terminal request", async () => {
      const ioctl = (request: number | string): string => `${number("ioctl")}:0,${request},0`;
      const requests = Array.from({ length: 256 }, (_, low) => 0x5400 + low);
      const outcomes = await attempt(
        Object.fromEntries(requests.map((request) => [request.toString(16), ioctl(request)])),
        marked(bundle.config()),
      );
      const refused = Object.keys(outcomes).filter(
        (request) => outcomes[request] === `errno=${MARKS.EPERM}`,
      );
      expect(refused.toSorted()).toEqual(["5412", "541c", "5423"]);
      expect(Object.values(outcomes)).not.toContain(`errno=${MARKS.default}`);
      const disguised = await attempt({
        upperHalf: ioctl("0x100005412"),
        allOfUpperHalf: ioctl("0xffffffff00005412"),
        clipboard: ioctl("0x800000000000541c"),
        discipline: ioctl("0x100005423"),
      });
      expect(Object.values(disguised)).toEqual(Array(4).fill(`errno=${ERRNO.EPERM}`));
    });

    test("creates files, FIFOs and sockets with mknod, but no devices", async () => {
      const types = {
        plain: 0,
        regular: 0o100000,
        fifo: 0o010000,
        socket: 0o140000,
        character: 0o020000,
        block: 0o060000,
      };
      const outcomes = await attempt(
        Object.fromEntries(
          Object.entries(types).flatMap(([name, type]) => [
            [`mknod-${name}`, `${number("mknod")}:s/tmp/a-${name},${type + 0o600},0x103`],
            [`mknodat-${name}`, `${number("mknodat")}:-100,s/tmp/b-${name},${type + 0o600},0x103`],
          ]),
        ),
      );
      for (const call of ["mknod", "mknodat"]) {
        for (const name of ["plain", "regular", "fifo", "socket"])
          expect([name, outcomes[`${call}-${name}`]]).toEqual([name, "ok=0"]);
        for (const name of ["character", "block"])
          expect([name, outcomes[`${call}-${name}`]]).toEqual([name, `errno=${ERRNO.EPERM}`]);
      }
    });

    test("accepts only the default personality and the debugger's", async () => {
      const personality = (value: number): string => `${number("personality")}:${value}`;
      const outcomes = await attempt({
        ask: personality(0xffff_ffff),
        default: personality(0),
        noRandomisation: personality(0x0004_0000),
        linux32: personality(8),
        readImpliesExec: personality(0x0040_0000),
        mmapPageZero: personality(0x0010_0000),
      });
      const unknown = `errno=${ERRNO.ENOSYS}`;
      expect(outcomes).toEqual({
        ask: "ok=0",
        default: "ok=0",
        noRandomisation: "ok=0",
        linux32: unknown,
        readImpliesExec: unknown,
        mmapPageZero: unknown,
      });
    });

    test("kills callers of int 0x80 and x32, and rejects unlisted numbers", async () => {
      const x32 = 0x4000_0000;
      const killed = await attempt({
        int80: "int80/20",
        int80Unknown: "int80/9999",
        x32: `${x32 + number("getpid")}`,
        x32Own: `${x32 + 512}`,
        x32Unknown: `${x32 + 9999}`,
      });
      expect(Object.values(killed)).toEqual(Array(5).fill(`signal=${SIGSYS}`));
      const unknown = await attempt({
        next: "451",
        newer: "470",
        far: "999",
        farther: `${x32 - 1}`,
      });
      expect(Object.values(unknown)).toEqual(Array(4).fill(`errno=${ERRNO.ENOSYS}`));
    });
  });
});
