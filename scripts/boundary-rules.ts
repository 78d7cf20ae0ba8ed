/** Makes rules for dependency-cruiser of the parts and their imports. */
import type { IAllowedRuleType, IForbiddenRuleType } from "dependency-cruiser";
import { daemonParts } from "./daemon-parts.ts";
import { packageParts } from "./package-parts.ts";
import type { Part } from "./package-parts.ts";

const parts = { ...daemonParts, ...packageParts };

/** Tests, files in `testing/` folders, and tools that no package ships. */
const unshipped =
  "(\\.test\\.ts$|/testing/|/generate-[^/]+\\.ts$|^packages/testkit/|^packages/[^/]+/(?!src/)[^/]+/?[^/]*\\.ts$|^(tests|bench|scripts|examples)/|^[^/]+\\.ts$)";
/** What only those may import. */
const forTests = "(\\.test\\.ts$|/testing/|^packages/testkit/)";

function pathOf(name: string): string {
  const part = parts[name];
  if (part === undefined) throw new Error(`there is no part ${name}`);
  return part.path;
}

function allowedFor({ path, parts: others = [], node = [], npm = [] }: Part): IAllowedRuleType {
  const to = [
    path,
    ...others.map(pathOf),
    ...(node.length > 0 ? [`^(node:)?(${node.join("|")})(/|$)`] : []),
    ...npm.map((name) => `node_modules/${name}/`),
  ];
  return { from: { path, pathNot: unshipped }, to: { path: to, pathNot: forTests } };
}

export const allowedRules: IAllowedRuleType[] = [
  { from: { path: unshipped }, to: {} },
  ...Object.values(parts).map(allowedFor),
];

export const forbiddenRules: IForbiddenRuleType[] = [
  {
    name: "no-circle",
    comment: "Modules that import each other in a circle cannot be understood one at a time.",
    severity: "error",
    from: {},
    to: { circular: true },
  },
  {
    name: "no-unknown-import",
    comment: "An import that cannot be resolved cannot be checked either.",
    severity: "error",
    from: {},
    to: { couldNotResolve: true },
  },
];

/** The part that a module belongs to; undefined for unshipped modules, and for those without a part. */
export function partOf(source: string): { readonly name: string; readonly part: Part } | undefined {
  for (const [name, part] of Object.entries(parts))
    if (new RegExp(part.path).test(source)) return { name, part };
  return undefined;
}

export function isShipped(source: string): boolean {
  return !new RegExp(unshipped).test(source);
}
