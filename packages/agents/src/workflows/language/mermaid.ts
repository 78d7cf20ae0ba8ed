/** Draws a plan as a Mermaid flowchart. */
import type { Block, Plan, Step } from "./plan.ts";
import { exitsOf, innerBlocks } from "./plan.ts";

export function mermaidGraph(plan: Plan): string {
  const graph = new Graph();
  graph.lines.push("flowchart TD", `  start(["start"])`);
  graph.block(plan.root, "  ", "finish");
  graph.lines.push(
    `  start --> ${graph.nodeOf(plan.root.start)}`,
    ...graph.edges.map((edge) => `  ${edge}`),
  );
  if (graph.edges.some((edge) => edge.endsWith(" finish"))) graph.lines.push(`  finish(["end"])`);
  return `${graph.lines.join("\n")}\n`;
}

class Graph {
  readonly lines: string[] = [];
  readonly edges: string[] = [];
  readonly #nodes = new Map<string, string>();

  /** Ids of steps could be Mermaid keywords, such as `end`; numbers never are. */
  nodeOf(id: string): string {
    const known = this.#nodes.get(id);
    if (known !== undefined) return known;
    const node = `n${this.#nodes.size + 1}`;
    this.#nodes.set(id, node);
    return node;
  }

  block(block: Block, indent: string, finish?: string): void {
    for (const step of block.steps) {
      this.#step(step, indent);
      for (const { to, label } of exitsOf(step)) {
        const target = to === undefined ? finish : this.nodeOf(to);
        if (target === undefined || (step.type === "end" && to === undefined)) continue;
        this.#edge(this.nodeOf(step.id), target, label);
      }
    }
  }

  #step(step: Step, indent: string): void {
    const node = this.nodeOf(step.id);
    const inner = innerBlocks(step);
    if (inner.length === 0) {
      const [open, close] = BRACKETS[step.type] ?? ["[", "]"];
      this.lines.push(`${indent}${node}${open}"${labelOf(step)}"${close}`);
      return;
    }
    this.lines.push(`${indent}subgraph ${node}["${labelOf(step)}"]`);
    for (const [index, { label, block }] of inner.entries()) {
      const isOnly = inner.length === 1;
      if (!isOnly) this.lines.push(`${indent}  subgraph ${node}_${index}["${escaped(label)}"]`);
      this.block(block, isOnly ? `${indent}  ` : `${indent}    `);
      if (!isOnly) this.lines.push(`${indent}  end`);
    }
    this.lines.push(`${indent}end`);
    if (step.type === "try") this.#edge(`${node}_0`, `${node}_1`, "error");
  }

  #edge(from: string, to: string, label: string | undefined): void {
    this.edges.push(
      label === undefined ? `${from} --> ${to}` : `${from} -->|"${escaped(label)}"| ${to}`,
    );
  }
}

const BRACKETS: Partial<Record<Step["type"], readonly [string, string]>> = {
  switch: ["{", "}"],
  approval: ["[/", "/]"],
  timer: ["([", "])"],
  end: ["([", "])"],
};

function labelOf(step: Step): string {
  const kind = step.type === "agent" ? `agent ${step.agent}` : step.type;
  return `${escaped(step.id)}<br/>${escaped(kind)}`;
}

const SHOWN_LENGTH = 60;

/**
 * SECURITY: browsers show the graph, so nothing from a file may end a label, start a tag or add a
 * statement. Guarded by mermaid.test.ts.
 */
function escaped(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  const shown = line.length > SHOWN_LENGTH ? `${line.slice(0, SHOWN_LENGTH)}…` : line;
  return shown.replace(/["#&<>`\\;|{}[\]()%]/g, (character) => `#${character.charCodeAt(0)};`);
}
