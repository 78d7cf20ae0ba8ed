import { SandboxError } from "@sandkasten/protocol";
import { describe, expect, it } from "vitest";
import { checkLimits, checkWorkspaceLimits } from "./limits.ts";

const MIB = 2 ** 20;
const LIMITS = { memoryBytes: 128 * MIB, cpuMillicores: 500, pids: 64 };

describe.each([
  ["a sandbox", (disk: Disk) => checkLimits({ ...LIMITS, ...disk })],
  ["a workspace", (disk: Disk) => checkWorkspaceLimits({ id: "wsp_ab", ...disk })],
])("the disk of %s", (_name, check) => {
  it.each([
    [16 * MIB, 32_768],
    [1024 * MIB, 2_097_152],
  ])("of %d bytes has room for %d files and no more", (diskBytes, most) => {
    expect(() => check({ diskBytes, diskInodes: most })).not.toThrow();
    const refusal = refusalOf(() => check({ diskBytes, diskInodes: most + 1 }));
    expect(refusal).toMatchObject({
      code: "INVALID_REQUEST",
      details: { limit: "diskInodes", most, disk_bytes: diskBytes },
    });
    expect(refusal.message).toContain(`at most ${most} on a disk of ${diskBytes} bytes`);
  });
});

interface Disk {
  readonly diskBytes: number;
  readonly diskInodes: number;
}

function refusalOf(act: () => void): SandboxError {
  try {
    act();
  } catch (error) {
    if (error instanceof SandboxError) return error;
    throw error;
  }
  throw new Error("it was not refused");
}
