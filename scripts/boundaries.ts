/**
 * Checks the direction of imports. It fails, too, when a source file was not looked at: a checker
 * that quietly looks at nothing finds nothing.
 */
import { existsSync, globSync } from "node:fs";
import { join } from "node:path";
import { cruise, type ICruiseResult } from "dependency-cruiser";
import { boundaryRules } from "./boundary-rules.ts";

const sourceDirs = ["packages", "tests", "bench", "scripts", "examples"];

async function cruiseSources(dirs: readonly string[]): Promise<ICruiseResult> {
  const { output } = await cruise([...dirs], {
    validate: true,
    ruleSet: { forbidden: boundaryRules },
    doNotFollow: { path: "node_modules" },
    exclude: { path: "(^|/)(fixtures|testdata|generated)/" },
    tsPreCompilationDeps: true,
    combinedDependencies: true,
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["node", "import", "types", "default"],
      extensions: [".ts", ".js", ".mjs", ".cjs", ".d.ts", ".json"],
    },
  });
  if (typeof output === "string") throw new Error(`dependency-cruiser answered: ${output}`);
  return output;
}

function unseenSources(dirs: readonly string[], seen: ReadonlySet<string>): string[] {
  return dirs
    .flatMap((dir) =>
      globSync("**/*.ts", { cwd: dir, exclude: ["**/node_modules"] }).map((file) =>
        join(dir, file),
      ),
    )
    .filter((file) => !/(^|\/)(fixtures|testdata|generated)\//.test(file) && !seen.has(file));
}

process.chdir(join(import.meta.dirname, ".."));
const dirs = sourceDirs.filter((dir) => existsSync(dir));
const { modules, summary } = await cruiseSources(dirs);
const ours = modules
  .map((module) => module.source)
  .filter((source) => !source.includes("node_modules"));
const unseen = unseenSources(dirs, new Set(ours));

for (const { rule, from, to, cycle } of summary.violations) {
  const path = cycle === undefined ? to : cycle.map((step) => step.name).join(" → ");
  console.log(`${rule.name}: ${from} → ${path}`);
  const comment = boundaryRules.find(({ name }) => name === rule.name)?.comment;
  if (comment !== undefined) console.log(`  ${comment}`);
}
for (const file of unseen) console.log(`not looked at: ${file}`);
const checked = ours.filter((source) => source.startsWith("packages/")).length;
if (checked === 0) console.log("No module under packages/ was looked at.");
console.log(
  `${summary.totalDependenciesCruised} imports of ${ours.length} modules, ${summary.violations.length} violations`,
);
process.exitCode = summary.violations.length > 0 || unseen.length > 0 || checked === 0 ? 1 : 0;
