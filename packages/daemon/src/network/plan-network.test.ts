import { SandboxError } from "@sandkasten/protocol";
import { describe, expect, it } from "vitest";
import { ceilingsOf, planNetwork, resolveRules, rulesOf } from "./plan-network.ts";
import type { NetworkRequest, NetworkTerms, PlannedNetwork } from "./plan-network.ts";
import type { Rule } from "./rules.ts";

const rules = (...texts: readonly string[]): readonly Rule[] => resolveRules(texts, new Map());

interface Allowed {
  readonly ceiling?: readonly string[];
  readonly key?: readonly string[];
  readonly usual?: readonly string[];
  readonly presets?: Readonly<Record<string, readonly string[]>>;
}

function plan(asked: NetworkRequest, allowed: Allowed): PlannedNetwork {
  const terms: NetworkTerms = {
    presets: new Map(
      Object.entries(allowed.presets ?? {}).map(([name, texts]) => [name, rules(...texts)]),
    ),
    ceiling: rules(...(allowed.ceiling ?? [])),
    ...(allowed.usual !== undefined && { default: rules(...allowed.usual) }),
  };
  return planNetwork(
    asked,
    terms,
    ceilingsOf(terms, allowed.key === undefined ? undefined : rules(...allowed.key)),
  );
}

function refusal(asked: NetworkRequest, allowed: Allowed): SandboxError {
  try {
    plan(asked, allowed);
  } catch (error) {
    if (error instanceof SandboxError) return error;
    throw error;
  }
  throw new Error("it was allowed");
}

describe("planNetwork", () => {
  it("gives no network to requests that ask for none", () => {
    for (const asked of [false, "none"] as const)
      expect(plan(asked, { ceiling: ["*:*"] })).toBe("none");
  });

  it("gives a network without allowed hosts to requests that ask for one", () => {
    expect(plan({ allow: [] }, {})).toEqual({ allow: [] });
  });

  it("refuses every network if the administrator allows none", () => {
    for (const asked of [true, "full", { allow: ["a.example"] }] as const) {
      const error = refusal(asked, {});
      expect(error.code).toBe("PERMISSION_DENIED");
      expect(error.message).toContain("the administrator's `network.allow`");
      expect(error.message).toContain("ask the administrator");
    }
  });

  it("returns the rules that the maximum covers, each once and in one spelling", () => {
    expect(
      plan({ allow: ["A.example.com.", "a.example.com:443,80"] }, { ceiling: ["*.example.com"] }),
    ).toEqual({ allow: ["a.example.com:80,443"] });
    expect(plan("full", { ceiling: ["*:*"] })).toEqual({ allow: ["*:*"] });
    expect(plan({ allow: ["*:*"] }, { ceiling: ["*:*"] })).toEqual({ allow: ["*:*"] });
  });

  it("refuses rules that exceed the administrator's maximum, and names them", () => {
    const error = refusal(
      { allow: ["a.example.com", "evil.test", "10.0.0.0/8"] },
      { ceiling: ["*.example.com"] },
    );
    expect(error.code).toBe("PERMISSION_DENIED");
    expect(error.message).toContain("evil.test:80,443 10.0.0.0/8:80,443");
    expect(error.details).toMatchObject({
      by: "the administrator's `network.allow`",
      refused: ["evil.test:80,443", "10.0.0.0/8:80,443"],
      allowed: ["*.example.com:80,443"],
    });
    expect(refusal("full", { ceiling: ["*"] }).code).toBe("PERMISSION_DENIED");
  });

  it("refuses rules that exceed the API key's maximum, and says so", () => {
    const allowed = { ceiling: ["*:*"], key: ["a.example"] };
    expect(plan({ allow: ["a.example"] }, allowed)).toEqual({ allow: ["a.example:80,443"] });
    for (const asked of ["full", { allow: ["b.example"] }] as const)
      expect(refusal(asked, allowed).message).toContain("`network_allow` of this API key");
    // A key cannot get more than the administrator allows for all.
    expect(
      refusal({ allow: ["b.example"] }, { ceiling: [], key: ["b.example"] }).message,
    ).toContain("`network.allow`");
  });

  it("resolves presets, and checks their rules against the maximum", () => {
    const presets = { pypi: ["pypi.org", "files.pythonhosted.org"], inside: ["10.0.0.0/8"] };
    expect(plan({ allow: ["pypi"] }, { presets, ceiling: ["*"] })).toEqual({
      allow: ["pypi.org:80,443", "files.pythonhosted.org:80,443"],
    });
    expect(refusal({ allow: ["inside"] }, { presets, ceiling: ["*:*"] }).message).toContain(
      "10.0.0.0/8",
    );
  });

  it("treats a single word only as a preset, never as a host", () => {
    const error = refusal(
      { allow: ["intranet"] },
      { ceiling: ["*:*"], presets: { pypi: ["pypi.org"] } },
    );
    expect(error.code).toBe("INVALID_REQUEST");
    expect(error.message).toContain("choose one of: full, pypi");
    expect(plan({ allow: ["intranet:80"] }, { ceiling: ["*:*"] })).toEqual({
      allow: ["intranet:80"],
    });
    expect(plan({ allow: ["full"] }, { ceiling: ["full"] })).toEqual({ allow: ["*:*"] });
    expect(refusal({ allow: ["full"] }, { ceiling: ["*"] }).code).toBe("PERMISSION_DENIED");
  });

  it("does not find a preset among the names that every object has", () => {
    for (const name of ["constructor", "__proto__", "toString"])
      expect(refusal({ allow: [name] }, { ceiling: ["*:*"] }).code).toBe("INVALID_REQUEST");
  });

  it("gives older clients the administrator's default, within every maximum", () => {
    expect(plan(true, { ceiling: ["*.example.com"] })).toEqual({ allow: ["*.example.com:80,443"] });
    expect(plan(true, { ceiling: ["*:*"], usual: ["a.example"] })).toEqual({
      allow: ["a.example:80,443"],
    });
    expect(plan(true, { ceiling: ["*:*"] })).toEqual({ allow: ["*:*"] });
    expect(
      plan(true, { ceiling: ["*.example.com"], key: ["a.example.com:443", "b.test"] }),
    ).toEqual({
      allow: ["a.example.com:443"],
    });
    expect(refusal(true, { ceiling: ["full"], usual: [] }).message).toContain("`network.default`");
    const error = refusal(true, { ceiling: ["a.example"], key: ["b.example"] });
    expect(error.message).toContain("`network_allow` of this API key");
  });

  it("refuses invalid rules, and shows an example", () => {
    const error = refusal({ allow: ["https://a.example/"] }, { ceiling: ["*:*"] });
    expect(error.code).toBe("INVALID_REQUEST");
    expect(error.message).toContain("*.example.com");
  });

  it("refuses more rules than it can check quickly", () => {
    const allow = Array.from({ length: 513 }, (_, at) => `h${at}.example`);
    expect(refusal({ allow }, { ceiling: ["*"] }).code).toBe("INVALID_REQUEST");
  });

  it("parses the stored rules of a session", () => {
    expect(rulesOf("none")).toEqual([]);
    const network = plan(
      { allow: ["a.example:5432", "10.0.0.0/8"] },
      { ceiling: ["*:*", "10.0.0.0/8"] },
    );
    expect(rulesOf(network)).toHaveLength(2);
  });
});
