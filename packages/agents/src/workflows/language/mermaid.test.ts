/** Graphs show every step and transition, and no text of a file breaks out of a label. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { compileWorkflow } from "./compile.ts";
import { mermaidGraph } from "./mermaid.ts";

function graphOf(text: string): string {
  const { plan, problems } = compileWorkflow(text, "w");
  expect(problems).toEqual([]);
  return mermaidGraph(plan!);
}

it("draws the founding document's workflow with its loop", async () => {
  const text = await readFile(
    join(import.meta.dirname, "../testing/code-review-and-fix.yaml"),
    "utf8",
  );
  expect(graphOf(text)).toBe(`flowchart TD
  start(["start"])
  n1["analyze<br/>agent code-analyzer"]
  n2["fix<br/>agent code-fixer"]
  n3["test<br/>agent test-runner"]
  n4{"check-results<br/>switch"}
  n5(["done<br/>end"])
  start --> n1
  n1 --> n2
  n2 --> n3
  n3 --> n4
  n4 -->|"true"| n5
  n4 -->|"false"| n2
`);
});

it("draws nested steps as their parts", () => {
  expect(
    graphOf(`
steps:
  - { id: ask, type: approval, on_reject: each }
  - id: both
    type: parallel
    branches:
      - { name: l, steps: [{ id: x, agent: a }, { id: y, agent: b }] }
      - { name: r, steps: [{ id: z, agent: c }] }
  - id: risky
    type: try
    try: [{ id: t, agent: a }]
    catch: [{ id: c, agent: b }]
  - { id: each, type: foreach, items: "[1]", steps: [{ id: e, agent: a }] }
`),
  ).toBe(`flowchart TD
  start(["start"])
  n1[/"ask<br/>approval"/]
  subgraph n2["both<br/>parallel"]
    subgraph n2_0["l"]
      n4["x<br/>agent a"]
      n5["y<br/>agent b"]
    end
    subgraph n2_1["r"]
      n6["z<br/>agent c"]
    end
  end
  subgraph n7["risky<br/>try"]
    subgraph n7_0["try"]
      n8["t<br/>agent a"]
    end
    subgraph n7_1["catch"]
      n9["c<br/>agent b"]
    end
  end
  subgraph n3["each<br/>foreach"]
    n10["e<br/>agent a"]
  end
  start --> n1
  n1 -->|"approved"| n2
  n1 -->|"rejected"| n3
  n4 --> n5
  n2 --> n7
  n7_0 -->|"error"| n7_1
  n7 --> n3
  n3 --> finish
  finish(["end"])
`);
});

it("escapes everything that could end a label or start a tag", () => {
  const hostile = `x"]; click n1 call alert() <img src=x onerror=alert(1)> #quot; \`md\` %% | {y}`;
  const graph = graphOf(`
steps:
  - { id: a, agent: ${JSON.stringify(hostile)} }
  - id: b
    type: switch
    transitions: [{ if: ${JSON.stringify(`"\\"] --> n9" == '<script>'`)}, next: end }]
  - { id: end, type: end }
`);
  const labels = [...graph.matchAll(/"(?<label>[^"]*)"/g)].map(({ groups }) => groups!["label"]!);
  expect(labels).toHaveLength(5);
  for (const label of labels)
    expect(label.replaceAll("<br/>", "")).not.toMatch(/[<>"`\\|{}[\]()%]/);
  expect(graph).not.toContain("<img");
  expect(graph.split("\n")).toHaveLength(9);
});
