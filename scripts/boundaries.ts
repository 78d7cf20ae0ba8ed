/**
 * Checks the direction of imports: `node scripts/boundaries.ts [DIRECTORY]`. It also fails if a
 * source file was not checked or belongs to no part, so it cannot silently check nothing.
 */
import { existsSync, globSync } from "node:fs";
import { join } from "node:path";
import { cruise, type ICruiseResult } from "dependency-cruiser";
import { allowedRules, forbiddenRules, isShipped, partOf } from "./boundary-rules.ts";

const sourceDirs = ["packages", "tests", "bench", "scripts", "examples"];

async function cruiseSources(dirs: readonly string[]): Promise<ICruiseResult> {
  const { output } = await cruise([...dirs], {
    validate: true,
    ruleSet: { forbidden: forbiddenRules, allowed: allowedRules, allowedSeverity: "error" },
    doNotFollow: { path: "node_modules" },
    // Of our own files only: the entries of many packages are in folders called dist.
    exclude: { path: "^(?!.*node_modules/).*/(fixtures|testdata|generated|dist)/" },
    tsPreCompilationDeps: true,
    combinedDependencies: true,
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["node", "import", "types", "default"],
      extensions: [".ts", ".tsx", ".js", ".mjs", ".cjs", ".d.ts", ".json"],
    },
  });
  if (typeof output === "string") throw new Error(`dependency-cruiser answered: ${output}`);
  return output;
}

function unseenSources(dirs: readonly string[], seen: ReadonlySet<string>): string[] {
  return dirs
    .flatMap((dir) =>
      globSync("**/*.{ts,tsx}", { cwd: dir, exclude: ["**/node_modules"] }).map((file) =>
        join(dir, file),
      ),
    )
    .filter((file) => !/(^|\/)(fixtures|testdata|generated|dist)\//.test(file) && !seen.has(file));
}

/** Why an import is refused, and what to do about it. */
function explanation(rule: string, from: string): string | undefined {
  const known = forbiddenRules.find(({ name }) => name === rule)?.comment;
  if (known !== undefined) return known;
  const found = partOf(from);
  if (found === undefined) return undefined;
  const { name, part } = found;
  return `The part "${name}" in scripts/{daemon,package}-parts.ts does not list it: ${part.because}.`;
}

process.chdir(process.argv[2] ?? join(import.meta.dirname, ".."));
const dirs = sourceDirs.filter((dir) => existsSync(dir));
const { modules, summary } = await cruiseSources(dirs);
const ours = modules
  .map((module) => module.source)
  .filter(
    (source) => !source.includes("node_modules") && dirs.includes(source.split("/")[0] ?? ""),
  );
const unseen = unseenSources(dirs, new Set(ours));
const homeless = ours.filter(
  (source) => /\.tsx?$/.test(source) && isShipped(source) && partOf(source) === undefined,
);

for (const { rule, from, to, cycle } of summary.violations) {
  const path = cycle === undefined ? to : cycle.map((step) => step.name).join(" → ");
  console.log(`${rule.name}: ${from} → ${path}`);
  const why = explanation(rule.name, from);
  if (why !== undefined) console.log(`  ${why}`);
}
for (const file of unseen) console.log(`not checked: ${file}`);
for (const file of homeless)
  console.log(
    `belongs to no part: ${file}\n  Add its folder to scripts/{daemon,package}-parts.ts.`,
  );
const checked = ours.filter((source) => source.startsWith("packages/")).length;
if (checked === 0) console.log("No module under packages/ was checked.");
const faults = summary.violations.length + unseen.length + homeless.length;
console.log(
  `${summary.totalDependenciesCruised} imports of ${ours.length} modules, ${faults} violations`,
);
process.exitCode = faults > 0 || checked === 0 ? 1 : 0;
