import { describe, expect, test } from "vitest";
import type { IsolationFact } from "../../ports/backend.ts";
import { isolationTier } from "./isolation-tier.ts";

const LIMITS = ["memory_limit", "pids_limit", "cpu_limit"];
const STANDARD = [
  ...LIMITS,
  ...["user", "pid", "mount", "network", "ipc", "uts"].map((name) => `${name}_namespace`),
  "seccomp",
  "no_new_privileges",
  "code_capabilities",
  "no_network",
  "disk_quota",
  "runtime_current",
  "code_user",
  "init_protected",
];

function facts(names: readonly string[], enforced = true): IsolationFact[] {
  return names.map((name) => ({ name, enforced, measured: "" }));
}

describe("isolationTier()", () => {
  test("is standard when every fact is enforced on a shared kernel", () => {
    expect(isolationTier("restricted", facts(STANDARD))).toBe("standard");
  });

  test.each(STANDARD)("is weak when %s is not enforced or was not measured", (name) => {
    const others = facts(STANDARD.filter((other) => other !== name));
    expect(isolationTier("restricted", [...others, ...facts([name], false)])).toBe("weak");
    expect(isolationTier("restricted", others)).toBe("weak");
  });

  test("does not require a code user in the root profile", () => {
    const asRoot = STANDARD.filter((name) => name !== "code_user" && name !== "init_protected");
    expect(isolationTier("root", facts(asRoot))).toBe("standard");
    expect(isolationTier("restricted", facts(asRoot))).toBe("weak");
  });

  test("is strong with a separate kernel, as long as the host enforces its limits", () => {
    expect(isolationTier("restricted", facts([...LIMITS, "own_kernel"]))).toBe("strong");
    for (const missing of LIMITS) {
      const rest = LIMITS.filter((name) => name !== missing);
      expect(isolationTier("restricted", facts([...rest, "own_kernel"]))).toBe("weak");
    }
  });
});
