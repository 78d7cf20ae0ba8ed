/** The names of a run's sandboxes. */
import type { SessionInfo } from "@sandkasten/sdk";
import { expect, it } from "vitest";
import { ScopeNames } from "./scope-names.ts";

const names = new ScopeNames("workflow", "wf_abc123");
const session = (key: string): SessionInfo => ({ id: "ses_1", key }) as SessionInfo;

it.each([
  "default",
  "workflow:wf_abc123:default",
  "workflow:wf_abc123",
  "workflow_wf_abc123_sandbox",
  "wf_abc123_sandbox",
])("%s is the default session", (name) => {
  expect(names.nameOf(name)).toBe("default");
});

it("keeps other names, and accepts only keys of the same scope", () => {
  expect(names.nameOf("build")).toBe("build");
  expect(names.nameOf("workflow:wf_abc123:build")).toBe("build");
  for (const other of ["workflow:wf_other:default", "agent:wf_abc123:default", "a:b", "a b", ""])
    expect(() => names.nameOf(other)).toThrow(
      expect.objectContaining({ code: "SANDBOX_NOT_FOUND" }),
    );
});

it("distinguishes its own sessions from those with a similar key", () => {
  expect(names.owns(session("workflow:wf_abc123:x"))).toBe(true);
  for (const key of ["workflow:wf_abc1234:x", "workflow:wf_abc12:x", "agent:wf_abc123:x"])
    expect(names.owns(session(key))).toBe(false);
  expect(names.owns({ id: "ses_1" } as SessionInfo)).toBe(false);
});

it("finds a session by id, key and, for the default one, alias", () => {
  const own = session("workflow:wf_abc123:default");
  for (const id of ["ses_1", "workflow:wf_abc123:default", "wf_abc123_sandbox"])
    expect(names.isNamed(own, id)).toBe(true);
  expect(names.isNamed(session("workflow:wf_abc123:build"), "wf_abc123_sandbox")).toBe(false);
  expect(names.isNamed(own, "ses_2")).toBe(false);
});
