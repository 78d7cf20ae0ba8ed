/** Telemetry that is off must cost nothing, and most of its cost would be loading the SDK. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const SCRIPT = `
import { registerHooks } from "node:module";
const urls = [];
registerHooks({ load(url, context, next) { urls.push(url); return next(url, context); } });
const { startTelemetry, telemetryFromEnvironment } = await import(process.argv[1]);
const count = () => urls.filter((url) => url.includes("/node_modules/@opentelemetry/")).length;
const off = count();
const settings = telemetryFromEnvironment({ OTEL_TRACES_EXPORTER: "otlp" }, { serviceName: "x" });
await startTelemetry(settings, { version: "1", isGlobal: false, onFailure: () => undefined });
console.log(JSON.stringify({ off, on: count() }));
`;

it("loads nothing of OpenTelemetry before it is started", { timeout: 60_000 }, async () => {
  const index = new URL("index.ts", import.meta.url).href;
  const { stdout } = await promisify(execFile)(process.execPath, [
    "--input-type=module",
    "--eval",
    SCRIPT,
    index,
  ]);
  const { off, on } = JSON.parse(stdout) as { readonly off: number; readonly on: number };
  expect(off).toBe(0);
  expect(on).toBeGreaterThan(0);
});
