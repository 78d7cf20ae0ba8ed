/** What agents request, and what the administrator allows. */
import { describe, expect, it } from "vitest";
import { DEFAULT_POLICY } from "./policy.ts";
import { parseSandboxSettings } from "./settings/parse-settings.ts";
import { checkImage, checkPackages, mayUseNetwork } from "./what-is-allowed.ts";

describe("a network", () => {
  it.each([
    [false, false, false],
    [true, false, false],
    [false, true, false],
    [true, true, true],
  ])("asked for: %s, allowed: %s, given: %s", (network, allowNetwork, given) => {
    const settings = parseSandboxSettings({ network });
    expect(mayUseNetwork(settings, { ...DEFAULT_POLICY, allowNetwork })).toBe(given);
  });

  it("is required for packages, from both", () => {
    const ask = parseSandboxSettings({ network: true, npm_packages: ["x"] });
    const policy = { ...DEFAULT_POLICY, allowNetwork: true };
    expect(() => checkPackages(ask, policy)).not.toThrow();
    expect(() => checkPackages(ask, DEFAULT_POLICY)).toThrow(/npm_packages .* administrator/);
    const silent = parseSandboxSettings({ npm_packages: ["x"] });
    expect(() => checkPackages(silent, policy)).toThrow(/author must set/);
    expect(() => checkPackages(parseSandboxSettings("python"), DEFAULT_POLICY)).not.toThrow();
  });
});

describe("a list of allowed images", () => {
  const allows = (image: string, ...allowedImages: string[]): boolean => {
    try {
      checkImage(image, { ...DEFAULT_POLICY, allowedImages });
      return true;
    } catch (error) {
      expect(error).toMatchObject({ code: "REFUSED" });
      expect((error as Error).message).toContain(allowedImages.join(", "));
      return false;
    }
  };

  it("allows everything when it is empty", () => {
    expect(allows("anything/at:all")).toBe(true);
  });

  it.each([
    ["python", "python:3.11-slim", true],
    ["python:3.11-slim", "python", true],
    ["python", "sandbox-runtime:python", true],
    ["linux", "ubuntu:22.04", true],
    ["node", "python:3.11-slim", false],
    ["python:3.12", "python:*", true],
    ["evil/python:3.12", "python:*", false],
    ["python:3.12", "python", false],
    ["ghcr.io/team/tools/app:1", "ghcr.io/team/*", false],
    ["ghcr.io/team/tools/app:1", "ghcr.io/team/**", true],
    ["pythonX3:1", "python.3:1", false],
    ["python:3.11-slim-evil", "python:3.11-slim", false],
  ])("%s by %s: %s", (image, entry, expected) => {
    expect(allows(image, entry)).toBe(expected);
    expect(allows(image, "other:1", entry)).toBe(expected);
  });
});
