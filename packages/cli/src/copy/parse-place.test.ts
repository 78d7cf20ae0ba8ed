import { expect, it } from "vitest";
import { parsePlace } from "./parse-place.ts";

it.each([
  ["ses_1:/tmp/a", { kind: "session", session: "ses_1", path: "/tmp/a" }],
  ["ses_1:a:b", { kind: "session", session: "ses_1", path: "a:b" }],
  ["ses_1:", { kind: "session", session: "ses_1", path: "/workspace" }],
  ["ses_1:a\nb", { kind: "session", session: "ses_1", path: "a\nb" }],
  ["./a:b", { kind: "local", path: "./a:b" }],
  ["/a:b", { kind: "local", path: "/a:b" }],
  ["a.b:c", { kind: "local", path: "a.b:c" }],
  [":a", { kind: "local", path: ":a" }],
  ["-", { kind: "stdio" }],
])("parsePlace() parses %j", (text, place) => {
  expect(parsePlace(text)).toEqual(place);
});
