/** Builds the seccomp section of an OCI configuration: the syscall table, minus the denied calls. */
import { SandboxError } from "@sandkasten/protocol";
import { deepFreeze } from "../../../deep-freeze.ts";
import type { ArgumentRule } from "./argument-rules.ts";
import { argumentRules } from "./argument-rules.ts";
import { DENIALS, ERRNO } from "./deny-table.ts";
import { AARCH64_SYSCALLS, X86_64_SYSCALLS } from "./syscall-table.generated.ts";

/** Node's name for a processor (`process.arch`) that has a profile. */
export type SeccompArchitecture = "x64" | "arm64";

export interface SeccompArgument {
  readonly index: number;
  readonly value: number;
  readonly valueTwo: number;
  readonly op: "SCMP_CMP_MASKED_EQ";
}

export interface SeccompRule {
  readonly names: readonly string[];
  readonly action: "SCMP_ACT_ALLOW" | "SCMP_ACT_ERRNO";
  readonly errnoRet?: number;
  readonly args?: readonly SeccompArgument[];
}

/** `linux.seccomp` of the OCI runtime specification, as far as it is used here. */
export interface SeccompProfile {
  readonly defaultAction: "SCMP_ACT_ERRNO";
  readonly defaultErrnoRet: number;
  readonly architectures: readonly string[];
  readonly syscalls: readonly SeccompRule[];
}

export interface ProfileOptions {
  /**
   * How the calls denied with ENOSYS are answered. `default`: by `defaultErrnoRet`. `rule`: by
   * rules, because engines before Docker 23 ignore that field and return EPERM, after which glibc
   * does not fall back from `clone3`. `kernel`: by gVisor, which reads no errno from a profile; it
   * lacks most of these calls, and namespaces of `clone3` are in its own kernel.
   */
  readonly missing?: "default" | "rule" | "kernel";
}

const TARGETS: Readonly<
  Record<
    SeccompArchitecture,
    { readonly name: string; readonly table: Readonly<Record<string, number>> }
  >
> = {
  x64: { name: "SCMP_ARCH_X86_64", table: X86_64_SYSCALLS },
  arm64: { name: "SCMP_ARCH_AARCH64", table: AARCH64_SYSCALLS },
};

/** By processor and answer. */
const profiles = new Map<string, SeccompProfile>();

/**
 * The profile for one processor, always the same object, which nothing can change.
 *
 * SECURITY: against foreign system calls: only the machine's own architecture is named, so the
 * runtime's library kills (SIGSYS) code that enters through another one, such as `int 0x80` or x32,
 * whose numbers mean other calls. A number that the table does not know returns ENOSYS. Guarded by
 * seccomp.container.test.ts.
 *
 * @throws SandboxError `UNSUPPORTED` if there is no profile for the processor: such a sandbox is refused, never created without one.
 */
export function buildSeccompProfile(
  architecture: string,
  { missing = "default" }: ProfileOptions = {},
): SeccompProfile {
  const key = `${architecture} ${missing}`;
  const profile = profiles.get(key) ?? deepFreeze(build(architecture, missing));
  profiles.set(key, profile);
  return profile;
}

function build(
  architecture: string,
  missing: NonNullable<ProfileOptions["missing"]>,
): SeccompProfile {
  const target = Object.hasOwn(TARGETS, architecture)
    ? TARGETS[architecture as SeccompArchitecture]
    : undefined;
  if (!target) {
    throw new SandboxError(
      "UNSUPPORTED",
      `there is no seccomp profile for the processor "${architecture}"; use a machine with one of: ${Object.keys(TARGETS).join(", ")}`,
    );
  }
  const known = (name: string): boolean => Object.hasOwn(target.table, name);
  const byArguments = argumentRules().filter((rule) => known(rule.syscall));
  const special = new Set([
    ...byArguments.map((rule) => rule.syscall),
    ...DENIALS.flatMap((denial) => denial.syscalls),
  ]);
  const denied = (errno: keyof typeof ERRNO): string[] =>
    DENIALS.filter((denial) => denial.errno === errno).flatMap((denial) =>
      denial.syscalls.filter(known),
    );
  return {
    defaultAction: "SCMP_ACT_ERRNO",
    defaultErrnoRet: ERRNO.ENOSYS,
    architectures: [target.name],
    syscalls: [
      {
        names: Object.keys(target.table).filter((name) => !special.has(name)),
        action: "SCMP_ACT_ALLOW",
      },
      { names: denied("EPERM"), action: "SCMP_ACT_ERRNO", errnoRet: ERRNO.EPERM },
      ...missingRules(missing, denied("ENOSYS")),
      ...byArguments.map(toRule),
    ],
  };
}

function missingRules(
  answer: NonNullable<ProfileOptions["missing"]>,
  names: readonly string[],
): SeccompRule[] {
  if (answer === "default") return [];
  if (answer === "kernel") return [{ names, action: "SCMP_ACT_ALLOW" }];
  return [{ names, action: "SCMP_ACT_ERRNO", errnoRet: ERRNO.ENOSYS }];
}

function toRule(rule: ArgumentRule): SeccompRule {
  return {
    names: [rule.syscall],
    ...(rule.action === "allow"
      ? { action: "SCMP_ACT_ALLOW" as const }
      : { action: "SCMP_ACT_ERRNO" as const, errnoRet: ERRNO[rule.action] }),
    // The specification's names mislead: under MASKED_EQ, `value` is the mask and `valueTwo` what must remain.
    args: rule.tests.map((test) => ({
      index: test.index,
      value: test.mask,
      valueTwo: test.value,
      op: "SCMP_CMP_MASKED_EQ" as const,
    })),
  };
}
