import { describe, expect, it } from "vitest";
import { matchPrefix } from "./find-by-id.ts";

const IDS = ["ses_abc123", "ses_abd456", "ses_xyz789"];

describe("matchPrefix()", () => {
  it.each([
    ["ses_abc", "ses_abc123"],
    ["abc", "ses_abc123"],
    ["xyz", "ses_xyz789"],
    ["ses_xyz789", "ses_xyz789"],
  ])("finds by %s the one id with this prefix", (given, id) => {
    expect(matchPrefix("session", given, IDS)).toBe(id);
  });

  it.each(["", "s", "ses", "bc1", "../abc", "ses_abc1234"])("finds nothing by %j", (given) => {
    expect(matchPrefix("session", given, IDS)).toBeUndefined();
  });

  it.each(["ses_", "ses_x", "xy"])("says that %j is too short", (given) => {
    expect(() => matchPrefix("session", given, IDS)).toThrow(`"${given}" is too short`);
  });

  it("refuses a prefix of several ids and names them", () => {
    const ids = [...IDS, "ses_abc999"];
    expect(() => matchPrefix("session", "abc", ids)).toThrow(/2 ids: ses_abc123, ses_abc999/);
  });

  it("accepts an id that is listed twice", () => {
    expect(matchPrefix("session", "xyz", [...IDS, ...IDS])).toBe("ses_xyz789");
  });
});
