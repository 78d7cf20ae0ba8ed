import { expect, it } from "vitest";
import { idsOf, parseTraceContext, traceparentOf } from "./trace-context.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";

it("parses a context and formats it again", () => {
  const context = parseTraceContext(` 00-${TRACE}-${SPAN}-01 `, "vendor=1,other=2");
  expect(context).toEqual({
    traceparent: `00-${TRACE}-${SPAN}-01`,
    tracestate: "vendor=1,other=2",
  });
  const ids = idsOf(context ?? { traceparent: "" });
  expect(ids).toEqual({ traceId: TRACE, spanId: SPAN, flags: 1 });
  expect(traceparentOf(ids)).toBe(`00-${TRACE}-${SPAN}-01`);
});

it("accepts fields of later versions, and passes on what it knows", () => {
  expect(parseTraceContext(`cc-${TRACE}-${SPAN}-01-what-comes`)).toEqual({
    traceparent: `00-${TRACE}-${SPAN}-01`,
  });
});

it.each([
  undefined,
  ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
  "",
  `00-${TRACE}-${SPAN}`,
  `00-${TRACE}-${SPAN}-01-`,
  `00-${TRACE.toUpperCase()}-${SPAN}-01`,
  `00-${"0".repeat(32)}-${SPAN}-01`,
  `00-${TRACE}-${"0".repeat(16)}-01`,
  `ff-${TRACE}-${SPAN}-01`,
  `cc-${TRACE}-${SPAN}-01x`,
  `00-${TRACE}-${SPAN}-01\nLD_PRELOAD=x`,
  `00-${TRACE}-${SPAN}-0$`,
  "0".repeat(2000),
])("does not accept %j as a context", (header) => {
  expect(parseTraceContext(header)).toBeUndefined();
});

it("drops a tracestate that is too long or not printable, and keeps the context", () => {
  const traceparent = `00-${TRACE}-${SPAN}-00`;
  for (const state of ["a=".padEnd(513, "b"), "a=\nb", "", 7])
    expect(parseTraceContext(traceparent, state)).toEqual({ traceparent });
});
