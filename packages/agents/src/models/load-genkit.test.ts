/** Genkit must not decide when the process ends. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const PROGRAM = `
  const { ModelRegistry } = await import(${JSON.stringify(new URL("./model-registry.ts", import.meta.url).href)});
  const model = await new ModelRegistry({ env: {} }).get("scripted/demo");
  const request = { messages: [{ role: "user", content: [{ text: "Hi" }] }] };
  await model.ask(request, { onChunk: () => {}, signal: new AbortController().signal });
  process.on("SIGTERM", () => setTimeout(() => console.log("cleaned up"), 50));
  console.log(process.listenerCount("SIGINT"), process.listenerCount("SIGTERM"));
  process.kill(process.pid, "SIGTERM");
  setTimeout(() => {}, 100);
`;

test("after a run with Genkit, signals reach only the handlers of the program", async () => {
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", PROGRAM]);
  expect(stdout).toBe("0 1\ncleaned up\n");
});
