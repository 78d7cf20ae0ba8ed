/**
 * Writes `syscall-table.generated.ts` from the kernel's user-space headers. Run it by hand, on a
 * machine with Linux headers and a C preprocessor, to update the table for a newer kernel:
 *
 *     node packages/daemon/src/backends/container/seccomp/generate-syscall-table.ts
 *
 * Every name that it adds is allowed unless `deny-table.ts` denies it, so review the difference and
 * then raise `REVIEWED_THROUGH` there; the tests fail until that is done.
 */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";

/** What arm64's header defines before it includes the generic one. */
const ARM64_FEATURES = [
  "__ARCH_WANT_RENAMEAT",
  "__ARCH_WANT_NEW_STAT",
  "__ARCH_WANT_SET_GET_RLIMIT",
  "__ARCH_WANT_TIME32_SYSCALLS",
  "__ARCH_WANT_SYS_CLONE3",
  "__ARCH_WANT_MEMFD_SECRET",
];

/** Defined by the headers, but limits of the table rather than system calls. */
const NOT_SYSCALLS = new Set(["syscalls", "arch_specific_syscall"]);

function macros(source: string): Map<string, string> {
  const text = execFileSync("cc", ["-E", "-dM", "-x", "c", "-"], {
    input: source,
    encoding: "utf8",
  });
  const found = new Map<string, string>();
  for (const [, name = "", value = ""] of text.matchAll(/^#define (\w+) (.+)$/gm)) {
    found.set(name, value.trim());
  }
  return found;
}

function syscalls(defined: Map<string, string>): [string, number][] {
  const table: [string, number][] = [];
  for (const [macro, first] of defined) {
    if (!macro.startsWith("__NR_")) continue;
    const name = macro.slice("__NR_".length);
    if (NOT_SYSCALLS.has(name)) continue;
    // Some names are spelled through a second macro (__NR3264_…).
    let value = first;
    for (let next = defined.get(value); next !== undefined; next = defined.get(value)) value = next;
    if (!/^\d+$/.test(value))
      throw new Error(
        `${macro} is "${value}", which is not a number; teach the generator to read it`,
      );
    table.push([name, Number(value)]);
  }
  if (table.length < 250)
    throw new Error(`only ${table.length} system calls found; are the kernel's headers installed?`);
  return table.sort((a, b) => a[1] - b[1]);
}

function literal(constant: string, doc: string, table: [string, number][]): string {
  const rows = table.map(([name, number]) => `  ${name}: ${number},`).join("\n");
  return `/** ${doc} */\nexport const ${constant}: Readonly<Record<string, number>> = {\n${rows}\n};\n`;
}

const version = Number(macros("#include <linux/version.h>\n").get("LINUX_VERSION_CODE"));
const release = `${version >> 16}.${(version >> 8) & 0xff}`;
const x86 = syscalls(macros("#include <asm/unistd_64.h>\n"));
const arm = syscalls(
  macros(
    `${ARM64_FEATURES.map((f) => `#define ${f}`).join("\n")}\n#include <asm-generic/unistd.h>\n`,
  ),
);

const text = [
  `/** System calls and their numbers, from the headers of Linux ${release}. Written by \`generate-syscall-table.generated.ts\`; do not edit. */`,
  literal("X86_64_SYSCALLS", "Names and numbers on x86_64.", x86),
  literal("AARCH64_SYSCALLS", "Names and numbers on arm64.", arm),
].join("\n");
writeFileSync(new URL("./syscall-table.generated.ts", import.meta.url), text);
process.stdout.write(
  `Linux ${release}: ${x86.length} system calls on x86_64, ${arm.length} on arm64\n`,
);
