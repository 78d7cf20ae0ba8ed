import { afterEach, expect, it } from "vitest";
import { addTraceHeaders } from "./trace-headers.ts";

const API = Symbol.for("opentelemetry.js.api.1");
const globals = globalThis as Record<symbol, unknown>;
const before = globals[API];
afterEach(() => {
  globals[API] = before;
});

it("sends nothing without OpenTelemetry", () => {
  globals[API] = undefined;
  const headers = new Headers();
  addTraceHeaders(headers);
  expect([...headers]).toEqual([]);
});

it("sends the trace of the active span, and no baggage", () => {
  const active = { span: "the active one" };
  globals[API] = {
    context: { active: () => active },
    propagation: {
      inject: (
        context: unknown,
        carrier: Headers,
        setter: { set(carrier: Headers, name: string, value: string): void },
      ) => {
        expect(context).toBe(active);
        setter.set(
          carrier,
          "traceparent",
          "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        );
        setter.set(carrier, "tracestate", "vendor=1");
        setter.set(carrier, "baggage", "password=hunter2");
      },
    },
  };
  const headers = new Headers({ authorization: "Bearer key" });
  addTraceHeaders(headers);
  expect([...headers]).toEqual([
    ["authorization", "Bearer key"],
    ["traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
    ["tracestate", "vendor=1"],
  ]);
});
