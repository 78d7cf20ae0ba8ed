import { SESSION_STATUSES } from "@sandkasten/protocol";
import { describe, expect, it } from "vitest";
import { checkTransition, isLiving, statesBefore, unusable } from "./states.ts";

describe("states of a session", () => {
  it("know which may follow which", () => {
    const allowed = SESSION_STATUSES.flatMap((to) =>
      statesBefore(to).map((from) => `${from} → ${to}`),
    );
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

  it("refuse every other transition with CONFLICT and say what to do", () => {
    for (const from of SESSION_STATUSES)
      for (const to of SESSION_STATUSES) {
        const check = (): void => checkTransition("ses_1", from, to);
        if (statesBefore(to).includes(from)) expect(check).not.toThrow();
        else expect(check).toThrow(expect.objectContaining({ code: "CONFLICT" }));
      }
  });

  it("tell living from ended", () => {
    expect(SESSION_STATUSES.filter(isLiving)).toEqual([
      "creating",
      "running",
      "paused",
      "destroying",
    ]);
  });

  it("answer a use of each with the code that clients know", () => {
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
