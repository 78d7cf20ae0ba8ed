/** Workflows in the middle of every kind of step, for tests that kill the process. */

interface CrashScenario {
  readonly source: string;
  /** The steps at the moment the process is killed. */
  readonly atKill: readonly string[];
}

const pure = (step: string): CrashScenario => ({
  source: `
steps:
  - { id: first, agent: work, task: one }
  - ${step}
  ${step.includes("type: end") ? "" : "- { id: end, type: end }"}
`,
  atKill: ["first:1 succeeded", "s:1 running"],
});

const approval: CrashScenario = {
  source: `
steps:
  - { id: first, agent: work, task: one }
  - { id: ask, type: approval, message: "{{ steps.first.output }}?" }
  - { id: then, agent: work, task: "{{ steps.ask.output.comment }}" }
`,
  atKill: ["first:1 succeeded", "ask:1 waiting"],
};

const held: CrashScenario = {
  source: `
steps:
  - { id: first, agent: work, task: one }
  - { id: second, agent: hold, task: two }
  - { id: third, agent: work, task: three }
`,
  atKill: ["first:1 succeeded", "second:1 running"],
};

const timer = (duration: string): CrashScenario => ({
  source: `
steps:
  - { id: first, agent: work, task: one }
  - { id: pause, type: timer, duration: ${duration} }
  - { id: then, agent: work, task: two }
`,
  atKill: ["first:1 succeeded", "pause:1 waiting"],
});

const retry = (backoff: string): CrashScenario => ({
  source: `
steps:
  - { id: flaky, agent: fail-once, task: x, retry: { backoff: ${backoff}, max_backoff: 1d, jitter: 0 } }
`,
  atKill: ["flaky:1 retrying"],
});

/** What a process is in the middle of when it is killed, by name. */
export const CRASH_SCENARIOS = {
  agent: held,
  "agent, given up": held,
  "safe agent": {
    source: held.source.replace("task: two", "task: two, safe: true"),
    atKill: held.atKill,
  },
  "agent's task": {
    source: `
steps:
  - { id: first, agent: work, task: one }
  - { id: second, agent: work, task: "{{ run.id }}" }
`,
    atKill: ["first:1 succeeded"],
  },
  switch: pure(
    `{ id: s, type: switch, expression: "run.id != ''", transitions: [{ condition: true, next: end }] }`,
  ),
  condition: pure(`{ id: s, type: switch, transitions: [{ if: "run.id != ''", next: end }] }`),
  transform: pure("{ id: s, type: transform, expression: run.id }"),
  set: pure('{ id: s, type: set, values: { a: "{{ run.id }}" } }'),
  end: pure('{ id: s, type: end, output: "{{ run.id }}" }'),
  foreach: {
    source: `
steps:
  - id: each
    type: foreach
    items: "['a', 'b', 'c', 'd']"
    max_concurrency: 2
    steps:
      - { id: work, agent: work, task: "{{ item }}" }
      - { id: check, type: switch, expression: "item == 'c'", transitions: [{ condition: true, next: stop }], default: out }
      - { id: stop, agent: hold, task: "{{ item }}", safe: true }
      - { id: out, type: transform, expression: "item + '!'" }
`,
    atKill: [
      "each:1 running",
      ...["[0]", "[1]", "[3]"].flatMap((item) =>
        ["work:1", "check:1", "out:1"].map((step) => `each:1/${item}/${step} succeeded`),
      ),
      "each:1/[2]/work:1 succeeded",
      "each:1/[2]/check:1 succeeded",
      "each:1/[2]/stop:1 running",
    ],
  },
  parallel: {
    source: `
steps:
  - id: both
    type: parallel
    branches:
      - { name: l, steps: [{ id: left, agent: work, task: left }] }
      - { name: r, steps: [{ id: right, agent: work, task: right }, { id: last, agent: hold, task: last, safe: true }] }
  - { id: after, type: transform, expression: "steps.left.output + steps.right.output + steps.last.output" }
`,
    atKill: [
      "both:1 running",
      "both:1/l/left:1 succeeded",
      "both:1/r/right:1 succeeded",
      "both:1/r/last:1 running",
    ],
  },
  "parallel, half safe": {
    source: `
steps:
  - id: both
    type: parallel
    branches:
      - { name: l, steps: [{ id: left, agent: hold, task: left, safe: true }] }
      - { name: r, steps: [{ id: right, agent: hold-too, task: right }] }
`,
    atKill: ["both:1 running", "both:1/l/left:1 running", "both:1/r/right:1 running"],
  },
  try: {
    source: `
steps:
  - { id: seen, agent: work, task: seen }
  - id: risky
    type: try
    try:
      - { id: fine, agent: work, task: fine }
      - { id: bad, type: end, status: failed, message: "as {{ steps.fine.output }} as {{ steps.seen.output }}" }
    catch:
      - { id: rescue, agent: hold, task: "{{ error.message }}", safe: true }
  - { id: pause, type: timer, seconds: 1 }
  - { id: after, type: transform, expression: "steps.rescue.output + ' ' + steps.fine.output" }
`,
    atKill: [
      "seen:1 succeeded",
      "risky:1 running",
      "risky:1/try/fine:1 succeeded",
      "risky:1/try/bad:1 failed",
      "risky:1/catch/rescue:1 running",
    ],
  },
  "compound steps before": {
    source: `
steps:
  - id: both
    type: parallel
    branches:
      - { name: l, steps: [{ id: left, agent: work, task: left }] }
      - { name: r, steps: [{ id: right, agent: work, task: right }] }
  - id: risky
    type: try
    try:
      - { id: fine, agent: work, task: fine }
      - { id: bad, type: end, status: failed }
    catch: [{ id: rescue, agent: work, task: rescued }]
  - { id: each, type: foreach, items: "[1, 2]", steps: [{ id: item, agent: work, task: "{{ item }}" }] }
  - { id: wait, agent: hold, task: x, safe: true }
  - { id: after, type: set, values: "{{ steps.left.output }} {{ steps.both.output.r }} {{ steps.fine.output }} {{ steps.rescue.output }} {{ steps.each.output }}" }
`,
    atKill: [
      "both:1 succeeded",
      "both:1/l/left:1 succeeded",
      "both:1/r/right:1 succeeded",
      "risky:1 succeeded",
      "risky:1/try/fine:1 succeeded",
      "risky:1/try/bad:1 failed",
      "risky:1/catch/rescue:1 succeeded",
      "each:1 succeeded",
      "each:1/[0]/item:1 succeeded",
      "each:1/[1]/item:1 succeeded",
      "wait:1 running",
    ],
  },
  approval,
  "approval, decided meanwhile": approval,
  timer: timer("1h"),
  "timer, not due yet": timer("3h"),
  retry: retry("1h"),
  "retry, not due yet": retry("3h"),
  cancelled: held,
} satisfies Record<string, CrashScenario>;
