import { SESSION_STATUSES } from "@sandkasten/protocol";
import { describe, expect, it } from "vitest";
import { checkTransition, isLiving, unusable } from "./states.ts";

describe("states of a session", () => {
  it("allow only valid transitions, and refuse all others with CONFLICT", () => {
    const allowed: string[] = [];
    for (const from of SESSION_STATUSES)
      for (const to of SESSION_STATUSES)
        try {
          checkTransition("ses_1", from, to);
          allowed.push(`${from} → ${to}`);
        } catch (error) {
          expect(error).toMatchObject({ code: "CONFLICT", details: { status: from } });
        }
    expect(allowed.toSorted()).toEqual([
      "creating → destroying",
      "creating → failed",
      "creating → running",
      "destroying → crashed",
      "destroying → destroyed",
      "destroying → expired",
      "destroying → failed",
      "paused → destroying",
      "paused → running",
      "running → destroying",
      "running → paused",
    ]);
  });

  it("distinguish active from ended", () => {
    expect(SESSION_STATUSES.filter(isLiving)).toEqual([
      "creating",
      "running",
      "paused",
      "destroying",
    ]);
  });

  it("return the documented error for a use in each state", () => {
    const codes = SESSION_STATUSES.map((status) => [status, unusable("ses_1", status).code]);
    expect(Object.fromEntries(codes)).toEqual({
      creating: "CONFLICT",
      running: "CONFLICT",
      paused: "CONFLICT",
      destroying: "SESSION_NOT_FOUND",
      destroyed: "SESSION_NOT_FOUND",
      expired: "SESSION_EXPIRED",
      crashed: "CONFLICT",
      failed: "CONFLICT",
    });
  });
});
