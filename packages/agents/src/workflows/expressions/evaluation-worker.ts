/** The thread that evaluates expressions, so that none of them blocks the process. */
import { parentPort } from "node:worker_threads";
import { celEnv, isCelError, parse, plan } from "@bufbuild/cel";
import type { CelInput, CelResult } from "@bufbuild/cel";
import { LIMITED_FUNCTIONS } from "./cel-functions.ts";
import { celFromJson, jsonFromCel } from "./cel-values.ts";

export interface EvaluationRequest {
  readonly sources: readonly string[];
  /** JSON, with a variable for each of its entries. */
  readonly variables: string;
  readonly maxBytes: number;
}

export type EvaluationAnswer =
  | { readonly values: readonly unknown[] }
  | { readonly error: string; readonly source: string };

type Evaluate = (variables: Record<string, CelInput>) => CelResult;

const MAX_PLANS = 1000;
const environment = celEnv({ funcs: LIMITED_FUNCTIONS });
const plans = new Map<string, Evaluate>();

function planOf(source: string): Evaluate {
  const known = plans.get(source);
  if (known !== undefined) return known;
  if (plans.size >= MAX_PLANS) plans.clear();
  const made: Evaluate = plan(environment, parse(source));
  plans.set(source, made);
  return made;
}

function answer({ sources, variables, maxBytes }: EvaluationRequest): EvaluationAnswer {
  // Without a prototype, so that no name resolves to an inherited property.
  const bound: Record<string, CelInput> = Object.assign(
    Object.create(null) as Record<string, CelInput>,
    Object.fromEntries(
      Object.entries(JSON.parse(variables) as object).map(([name, value]) => [
        name,
        celFromJson(value),
      ]),
    ),
  );
  const values: unknown[] = [];
  for (const source of sources) {
    try {
      const result = planOf(source)(bound);
      // The library returns errors as objects, which are truthy.
      if (isCelError(result)) return { error: result.message, source };
      values.push(jsonFromCel(result, maxBytes));
    } catch (error) {
      return { error: error instanceof Error ? error.message : String(error), source };
    }
  }
  return { values };
}

parentPort?.on("message", (request: EvaluationRequest) => {
  parentPort?.postMessage(answer(request));
});
parentPort?.postMessage("ready");
