/** Workflow files with mistakes: each is reported at its position, with what to write instead. */
import { describe, expect, it } from "vitest";
import { checkAgents, compileWorkflow } from "./compile.ts";
import { describeProblems } from "./problem.ts";

function problemsIn(text: string): string[] {
  const { plan, problems } = compileWorkflow(text, "w");
  expect(plan).toBeUndefined();
  return describeProblems("w", problems);
}

describe("compileWorkflow()", () => {
  const one = (step: string): string => `steps:\n  - { id: a, ${step} }\n`;

  it.each([
    ["", "w:1:1: the file is empty; a workflow has id and steps"],
    ["- a", "w:1:1: a workflow must be a mapping with id and steps"],
    ["id: x", "w:1:1: workflow: steps is missing; it must be a list of at least one step"],
    [
      "steps: []",
      "w:1:8: workflow: steps is an empty list; it must be a list of at least one step",
    ],
    ["steps: [x]", 'w:1:9: step 1 is "x"; it must be a mapping'],
    ["steps: [{type: end}]", "w:1:9: step 1: id is missing"],
    ["id: 'a b'\nsteps: [{id: a, type: end}]", 'w:1:5: workflow: id is "a b"; it must be 1 to 64'],
    ["steps: [{id: a.b, type: end}]", 'w:1:14: step 1: id is "a.b"; it must be 1 to 64'],
    ["steps: [{id: 1, type: end}]", "w:1:14: step 1: id is 1; it must be 1 to 64"],
    [
      "step: []\nsteps: [{id: a, type: end}]",
      'w:1:1: workflow: "step" is not known; did you mean steps?',
    ],
    [
      "steps: [{id: a, type: end}]\nstates: []",
      "w:2:1: workflow: states and steps are the same key",
    ],
    [one("type: agnet, agent: x"), 'w:2:20: step a: there is no type "agnet"; did you mean agent?'],
    [one("type: 5"), "w:2:20: step a: type is 5; it must be text"],
    [
      "steps: [{id: a, task: x}]",
      "w:1:9: step a: type is missing; it must be one of agent, switch",
    ],
    [one("type: agent"), "w:2:5: step a: agent is missing; it must be the name of an agent"],
    [one("agent: x, tsak: y"), 'w:2:24: step a: "tsak" is not known; did you mean task?'],
    [one("agent: x, task: y, agentTask: z"), "w:2:33: step a: agentTask and task are the same key"],
    [one("agent: x, retry: { attempts: 2 }"), 'w:2:33: step a: retry: "attempts" is not known'],
    [
      one("agent: x, retry: { max_attempts: 99 }"),
      "w:2:47: step a: retry: max_attempts is 99; it must be a whole number from 1 to 20",
    ],
    [
      one("agent: x, timeout: soon"),
      'w:2:33: step a: timeout is "soon"; it must be seconds, or a duration',
    ],
    [
      one("agent: x, timeout_seconds: 0"),
      "w:2:41: step a: timeout_seconds is 0; it must be seconds",
    ],
    [one("agent: x, safe: maybe"), 'w:2:30: step a: safe is "maybe"; it must be true or false'],
    [one("agent: x, __proto__: y"), 'w:2:24: step a: "__proto__" is not known'],
    [one("type: end, next: b"), 'w:2:25: step a: "next" is not known'],
    [one("agent: x, next: b"), "w:2:5: step a: there is no step b to go to"],
    [
      one("agent: x, next: a, end: true"),
      "w:2:33: step a: it has both next and end; keep one of them",
    ],
    ["start: b\nsteps: [{id: a, type: end}]", "w:1:8: start: there is no step b in this list"],
    [
      "steps:\n  - { id: a, type: end }\n  - { id: a, type: end }\n",
      "w:3:11: step a: the id is taken by the step in line 2",
    ],
    [
      "steps:\n  - { id: a, type: end }\n  - { id: b, type: end }\n",
      "w:3:5: step b is never reached: no step before it leads to it",
    ],
    [
      "steps:\n  - { id: a, type: set, values: 1, end: true }\n  - { id: b, type: end }\n",
      "w:3:5: step b is never reached",
    ],
    [one("type: transform"), "w:2:5: step a: it must have either expression or values"],
    [
      one("type: transform, expression: '1', values: 2"),
      "w:2:5: step a: it must have either expression or values",
    ],
    [one("type: timer"), "w:2:5: step a: it must have either seconds or until"],
    [one("type: end, message: hm"), "w:2:34: step a: message is for status: failed; use output"],
    [
      one("type: switch, transitions: [{next: a}]"),
      "w:2:42: step a: a transition must have either condition or if",
    ],
    [
      one("type: switch, transitions: [{if: 'true', condition: 'true', next: a}]"),
      "w:2:42: step a: a transition must have either",
    ],
    [
      one("type: switch, transitions: [{condition: 5, next: a}]"),
      "w:2:54: step a: condition must be text with a CEL expression",
    ],
    [
      one("type: switch, transitions: [{if: 'true'}]"),
      "w:2:42: step a: transition: next is missing",
    ],
    [one("type: switch, transitions: [x]"), "w:2:42: step a: a transition must be a mapping"],
    [
      one("type: switch, expression: '1', transitions: [{condition: 'input.x > 1', next: a}]"),
      "w:2:71: step a: condition is compared with the value of expression and is not evaluated; write `if`",
    ],
    [
      one("type: switch, transitions: [{if: 'true', next: b}]"),
      "w:2:5: step a: there is no step b to go to",
    ],
    [
      one("type: foreach, items: 'input', item: steps, steps: [{id: b, type: end}]"),
      "w:2:51: step a: item cannot be steps",
    ],
    [
      one("type: foreach, items: '[1]', steps: [{id: b, type: end}], max_items: 100000"),
      "w:2:83: step a: max_items is 100000; it must be a whole number from 1 to 10000",
    ],
    [
      one("type: parallel, branches: [{steps: [{id: b, type: end}]}]"),
      "w:2:41: step a: branch: name is missing",
    ],
    [
      one("type: parallel, join: any, branches: [{name: x, steps: [{id: b, type: end}]}]"),
      'w:2:36: step a: join is "any"; it must be all',
    ],
    [
      one(
        "type: parallel, branches: [{name: x, steps: [{id: b, type: end}]}, {name: x, steps: [{id: c, type: end}]}]",
      ),
      "w:2:81: step a: there are two branches with the name x",
    ],
    [one("type: try, try: [{id: b, type: end}]"), "w:2:5: step a: catch is missing"],
    ["a: &x [*x]\nsteps: *x", "w:1:7: the file has more than the 100 levels"],
    ["id: x\n  y: z", "w:1:5: "],
  ])("reports what is wrong with %j, and where", (text, problem) => {
    expect(problemsIn(text)[0]).toContain(problem);
  });

  it("reports all errors at once, in the order of the file", () => {
    const found = problemsIn(`
steps:
  - { id: a, agent: x, tsak: 1 }
  - { id: b, type: agnt }
  - { id: c, type: transform, expression: "steps.nope.output" }
`);
    expect(found.map((problem) => problem.slice(0, 6))).toEqual(["w:3:24", "w:4:20", "w:5:44"]);
  });

  it.each([
    [
      "a branch that jumps out",
      "branches: [{ name: l, steps: [{ id: b, agent: x, next: z }] }]",
      "type: parallel",
    ],
    [
      "an item that jumps out",
      "items: '[1]', steps: [{ id: b, agent: x, next: z }]",
      "type: foreach",
    ],
    [
      "a try that jumps out",
      "try: [{ id: b, agent: x, next: z }], catch: [{ id: c, type: end }]",
      "type: try",
    ],
  ])("refuses %s", (_what, body, type) => {
    const [problem] = problemsIn(
      `steps:\n  - { id: a, ${type}, ${body} }\n  - { id: z, type: end }\n`,
    );
    expect(problem).toContain(
      "step b: it cannot lead to z, which is in another list of steps; a branch ends at its own end",
    );
  });

  it.each([
    ["steps.nope.output", 43, "there is no step nope"],
    ["steps.frist.output", 43, "there is no step frist; did you mean first?"],
    ["inptu.x", 43, "inptu is not known; did you mean input?"],
    ["first.output", 43, "first is not known; the output of a step is steps.first.output"],
    [
      "steps.go-left.output",
      43,
      'there is no step go; a step with a dash is written steps["go-left"]',
    ],
    [
      "1 + steps.each1.output",
      47,
      "step each1 runs once for each item of each; all results are in steps.each.output",
    ],
    ["item", 43, "item is not known"],
    ["error.message", 43, "error is not known"],
    ["1 +", 45, "the expression is not valid CEL: found +"],
    ["[1].map(x, x + y)", 58, "y is not known"],
    ["[1].map(x)", 46, ".map() has the wrong arguments"],
    ["foo(1)", 43, "there is no function foo()"],
    ["'a'.sizee()", 46, "there is no function .sizee(); did you mean size?"],
    ["b'abc'", 43, "bytes cannot be used here"],
    ["google.protobuf.Value{}", 43, "google.protobuf.Value{…} cannot be created here"],
    [
      "[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))",
      79,
      "map(), filter(), all(), exists() and the like can be nested 3 deep",
    ],
    ["", 42, "the expression is empty"],
  ])("finds the error in the expression %j", (expression, column, message) => {
    const quoted = JSON.stringify(expression);
    const [problem] = problemsIn(`steps:
  - { id: first, agent: x }
  - id: both
    type: parallel
    branches: [{ name: l, steps: [{ id: go-left, agent: x }] }]
  - { id: each, type: foreach, items: "[1]", steps: [{ id: each1, agent: x }] }
  - { id: calc, type: transform, expression: ${quoted} }
`);
    if (expression === "")
      expect(problem).toContain('w:7:46: step calc: expression is ""; it must be text');
    else expect(problem).toContain(`w:7:${column + 4}: step calc: ${message}`);
  });

  it("refuses to read a step of another branch, which runs in parallel", () => {
    const text = `steps:
  - id: both
    type: parallel
    branches:
      - { name: l, steps: [{ id: left, agent: x }] }
      - name: r
        steps:
          - { id: right, agent: x, task: "with {{ steps.left.output }}" }
`;
    expect(problemsIn(text)).toEqual([
      "w:8:51: step right: step left runs in another branch of both at the same time",
    ]);
  });

  it("finds errors inside templates and multi-line texts", () => {
    const text = `steps:
  - id: a
    agent: x
    task: |
      first line
        {{ input.a }} and {{ inptu.b }}
  - id: b
    type: set
    values:
      list: ["{{ nope }}", 'x {{ "}}" + nope2 }}']
      open: "{{ input"
`;
    expect(problemsIn(text)).toEqual([
      "w:6:30: step a: inptu is not known; did you mean input?",
      "w:10:18: step b: nope is not known; known are input, steps, run",
      "w:10:41: step b: nope2 is not known; known are input, steps, run",
      "w:11:14: {{ has no }} that ends it",
    ]);
  });

  it("refuses a file that is too large, and one that aliases expand", () => {
    expect(problemsIn(`# ${"x".repeat(256 * 1024)}`)).toEqual([
      "w:1:1: the file is larger than the 262144 bytes that are allowed",
    ]);
    const bomb = ["a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"];
    for (const [from, to] of ["ab", "bc", "cd", "de", "ef"].map(([x, y]) => [x!, y!]))
      bomb.push(`${to}: &${to} [${Array(10).fill(`*${from}`).join(", ")}]`);
    expect(problemsIn(bomb.join("\n"))[0]).toMatch(/more than the 50000 values/);
  });
});

describe("checkAgents()", () => {
  it("reports missing agents, also deeply nested, with the nearest name", () => {
    const { plan } = compileWorkflow(
      `
steps:
  - { id: a, agent: writer }
  - { id: b, type: foreach, items: "[1]", steps: [{ id: c, agent: revewer }] }
`,
      "w",
    );
    const known = ["writer", "reviewer"];
    const problems = checkAgents(plan!, (name) => known.includes(name), known);
    expect(describeProblems("w", problems)).toEqual([
      'w:4:51: step c: there is no agent "revewer" that can be run; did you mean reviewer?',
    ]);
  });
});
