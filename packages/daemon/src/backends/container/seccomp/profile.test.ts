import { describe, expect, test } from "vitest";
import { argumentRules } from "./argument-rules.ts";
import { DENIALS, REVIEWED_THROUGH } from "./deny-table.ts";
import { buildSeccompProfile } from "./profile.ts";
import { AARCH64_SYSCALLS, X86_64_SYSCALLS } from "./syscall-table.generated.ts";

describe("the deny table", () => {
  test("names each system call once", () => {
    const names = DENIALS.flatMap((denial) => denial.syscalls);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  test.each([
    ["new namespaces", ["unshare", "setns", "clone3"]],
    [
      "mounting filesystems",
      [
        "mount",
        "umount2",
        "pivot_root",
        "fsopen",
        "fsmount",
        "open_tree",
        "move_mount",
        "mount_setattr",
      ],
    ],
    [
      "rare kernel interfaces: kernel surface",
      [
        "bpf",
        "perf_event_open",
        "userfaultfd",
        "io_uring_setup",
        "io_uring_enter",
        "keyctl",
        "add_key",
      ],
    ],
    [
      "rare kernel interfaces: handles, kernels, modules",
      ["open_by_handle_at", "kexec_load", "kexec_file_load", "init_module", "finit_module"],
    ],
  ])("denies %s", (_threat, syscalls) => {
    const denied = DENIALS.flatMap((denial) => denial.syscalls);
    expect(syscalls.filter((name) => !denied.includes(name))).toEqual([]);
  });

  test("names only system calls that exist on some processor", () => {
    const unknown = DENIALS.flatMap((denial) => denial.syscalls).filter(
      (name) => !Object.hasOwn(X86_64_SYSCALLS, name) && !Object.hasOwn(AARCH64_SYSCALLS, name),
    );
    expect(unknown).toEqual([]);
  });

  test("covers the whole syscall table", () => {
    for (const table of [X86_64_SYSCALLS, AARCH64_SYSCALLS]) {
      expect(Math.max(...Object.values(table))).toBe(REVIEWED_THROUGH.number);
      expect(table[REVIEWED_THROUGH.name]).toBe(REVIEWED_THROUGH.number);
    }
  });
});

describe.each([
  ["x64", X86_64_SYSCALLS, "SCMP_ARCH_X86_64"],
  ["arm64", AARCH64_SYSCALLS, "SCMP_ARCH_AARCH64"],
] as const)("buildSeccompProfile(%s)", (architecture, table, ociName) => {
  const profile = buildSeccompProfile(architecture);
  const allowed = profile.syscalls
    .filter((rule) => rule.action === "SCMP_ACT_ALLOW" && !rule.args)
    .flatMap((rule) => rule.names);

  test("returns ENOSYS for unknown calls", () => {
    expect(profile.defaultAction).toBe("SCMP_ACT_ERRNO");
    expect(profile.defaultErrnoRet).toBe(38);
  });

  test("names only this architecture", () => {
    expect(profile.architectures).toEqual([ociName]);
  });

  test("lists each system call of the table under exactly one verdict", () => {
    const denied = DENIALS.flatMap((denial) => denial.syscalls);
    const judgedByArguments = new Set(argumentRules().map((rule) => rule.syscall));
    for (const name of Object.keys(table)) {
      const judgements = [
        allowed.includes(name),
        denied.includes(name),
        judgedByArguments.has(name),
      ];
      expect([name, judgements.filter(Boolean).length]).toEqual([name, 1]);
    }
  });

  test("names no system call that the processor lacks", () => {
    const named = profile.syscalls.flatMap((rule) => rule.names);
    expect(named.filter((name) => !Object.hasOwn(table, name))).toEqual([]);
  });
});

describe("buildSeccompProfile()", () => {
  test.each(["ia32", "riscv64", "toString", ""])(
    "refuses the processor %j instead of omitting the filter",
    (architecture) => {
      expect(() => buildSeccompProfile(architecture)).toThrow(
        /no seccomp profile for the processor/,
      );
    },
  );

  test("stays small, because every rule adds to the time of each create", () => {
    expect(buildSeccompProfile("x64").syscalls.length).toBeLessThanOrEqual(80);
  });

  test("is shared by all sandboxes of a kind, so none can change it", () => {
    const profile = buildSeccompProfile("x64");
    expect(buildSeccompProfile("x64")).toBe(profile);
    expect(buildSeccompProfile("x64", { missing: "rule" })).not.toEqual(profile);
    expect(buildSeccompProfile("arm64")).not.toEqual(profile);
    for (const part of [profile, profile.syscalls, ...profile.syscalls])
      expect(Object.isFrozen(part)).toBe(true);
    const names = profile.syscalls.flatMap(({ names: ofRule, args }) => [ofRule, args ?? []]);
    expect(names.every((list) => list.length === 0 || Object.isFrozen(list))).toBe(true);
  });
});
