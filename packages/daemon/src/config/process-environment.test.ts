import { describe, expect, it, vi } from "vitest";
import { readProcessEnvironment } from "./process-environment.ts";

describe("readProcessEnvironment()", () => {
  it("copies the environment, so that later changes do not reach the configuration", () => {
    vi.stubEnv("SANDKASTEN_TEST_COPY", "before");
    const { env, cwd, home, isRoot } = readProcessEnvironment();
    vi.stubEnv("SANDKASTEN_TEST_COPY", "after");
    expect(env["SANDKASTEN_TEST_COPY"]).toBe("before");
    vi.unstubAllEnvs();
    expect({ cwd, isRoot }).toEqual({ cwd: process.cwd(), isRoot: process.geteuid?.() === 0 });
    expect(home).toMatch(/^\//);
  });
});
