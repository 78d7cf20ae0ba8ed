import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { workflowPage } from "./generate-workflow-page.ts";
import { compileWorkflow } from "./language/compile.ts";
import { STEP_KEYS, TYPE_ALIASES } from "./language/step-keys.ts";
import { WORKFLOW_KEYS } from "./language/workflow-keys.ts";

const PAGE = new URL("../../../../docs/reference/workflows.md", import.meta.url);

test("docs/reference/workflows.md matches the keys; if this fails, regenerate it with generate-workflow-page.ts", async () => {
  expect(await readFile(PAGE, "utf8")).toBe(workflowPage());
});

test("it describes every kind of step, every key and every alias", () => {
  const page = workflowPage();
  for (const type of Object.keys(STEP_KEYS)) expect(page).toContain(`### \`${type}\``);
  const keys = [WORKFLOW_KEYS, ...Object.values(STEP_KEYS)].flatMap((shape) => Object.keys(shape));
  for (const name of keys) expect(page).toMatch(new RegExp(`^\\| \`${name}\`[ ,]`, "m"));
  for (const alias of Object.keys(TYPE_ALIASES)) expect(page).toContain(`\`${alias}\``);
  expect(page).not.toMatch(/\| +\|/);
});

test("its example workflow is valid", () => {
  const source = /```yaml\n(.*?)```/s.exec(workflowPage())?.[1] ?? "";
  const { plan, problems } = compileWorkflow(source, "shown");
  expect(problems).toEqual([]);
  expect(plan?.root.steps).toHaveLength(4);
});
