/** Expressions have the values that CEL defines, and hostile ones end without harm to others. */
import { afterAll, describe, expect, it } from "vitest";
import { EvaluationError, Evaluator } from "./evaluator.ts";
import { parseExpression } from "./expression.ts";

/** With a long timeout: its tests do not measure time. */
const evaluator = new Evaluator({ maxCpuMs: 60_000 });
afterAll(async () => await evaluator[Symbol.asyncDispose]());

const variables = {
  input: { name: "Ada", count: 3, share: 0.5, tags: ["a", "b"], nothing: null, big: 2 ** 40 },
  steps: { test: { output: { all_passed: true } }, "check-results": { output: 1 } },
};

/** As a workflow's expressions are evaluated: checked first. */
async function valueOf(source: string, given: object = variables): Promise<unknown> {
  parseExpression(source);
  const [value] = await evaluator.evaluate([source], { ...given });
  return value;
}

describe("evaluate()", { timeout: 60_000 }, () => {
  it.each([
    ["steps.test.output.all_passed", true],
    ['steps["check-results"].output + 1', 2],
    ["input.count + 1", 4],
    ["input.count * 2 > 5 && input.name == 'Ada'", true],
    ["double(input.count) * 1.5", 4.5],
    ["input.share * 2.0", 1],
    ["input.big * 4", 2 ** 42],
    [
      "input.tags.map(tag, {'tag': tag, 'n': size(tag)})",
      [
        { tag: "a", n: 1 },
        { tag: "b", n: 1 },
      ],
    ],
    ["input.tags.filter(tag, tag != 'a')", ["b"]],
    ["has(input.missing) ? input.missing : 'none'", "none"],
    ["'nothing' in input", true],
    ["'constructor' in input", false],
    ["input.nothing == null", true],
    ["input.tags.join('-').upperAscii() + input.name.replace('A', 'E').substring(1)", "A-Bda"],
    ["'a,b,c'.split(',').size()", 3],
    [
      "' x '.trim() + 'abc'.charAt(1) + string('abcb'.lastIndexOf('b') - 'abc'.indexOf('b'))",
      "xb2",
    ],
    ["'AbC'.lowerAscii().contains('bc') && 'abc'.matches('^a.c$')", true],
    ["type(input.count) == int && type(input.share) == double", true],
    ["timestamp('2030-01-01T00:00:00Z') + duration('90s')", "2030-01-01T00:01:30.000Z"],
    ["duration('90s')", "90s"],
    ["{1: 'a', true: 'b'}", { 1: "a", true: "b" }],
    ["[1, 'a', null, {'x': [true]}]", [1, "a", null, { x: [true] }]],
    ["7 / 2", 3],
    ["3u", 3],
  ])("evaluates %s", async (source, expected) => {
    expect(await valueOf(source)).toEqual(expected);
  });

  it.each([
    ["input.missing", "`input.missing`: field not found: missing"],
    ["input.constructor", "field not found: constructor"],
    ["input.__proto__", "field not found: __proto__"],
    ["input.count / 0", "divide by zero"],
    ["input.share + 1", "no matching overload"],
    ["input.name.matches('(')", "error parsing regexp"],
    ["9007199254740993", "9007199254740993 is too large for JSON; use string()"],
    ["1.0 / 0.0", "the value is Infinity"],
    ["[1, 2].join()", "join() takes a list of texts"],
  ])("says why %s has no value", async (source, message) => {
    await expect(valueOf(source)).rejects.toThrow(EvaluationError);
    await expect(valueOf(source)).rejects.toThrow(message);
  });

  it("never treats an error as true", async () => {
    const values = evaluator.evaluate(["true", "input.missing"], variables);
    await expect(values).rejects.toThrow("field not found");
  });

  it("maps and filters long lists", async () => {
    const input = Array.from({ length: 5000 }, (_, index) => index);
    const mapped = await valueOf("input.filter(x, x % 2 == 0).map(x, x + 1)", { input });
    expect(mapped).toEqual(input.filter((x) => x % 2 === 0).map((x) => x + 1));
  });
});

describe("a hostile expression", { timeout: 60_000 }, () => {
  const list = Array.from({ length: 10_000 }, (_, index) => index);
  const text = "a".repeat(1024 * 1024);

  /** Doubles its start value thirty times. */
  const doubled = (start: string): string =>
    `[${start}]${Array.from({ length: 30 }, () => ".map(x, x + x)").join("")}[0]`;
  const nested = `[1]${Array.from({ length: 30 }, () => ".map(x, [x, x])").join("")}`;

  it.each([
    [
      "doubles a text",
      `size(${doubled("'ab'")})`,
      "a text would have more than 1048576 characters",
    ],
    ["doubles a list", `size(${doubled("[1, 2]")})`, "a list would have more than 10000 entries"],
    ["joins too much", "size(input.list.map(x, input.text).join())", "a text would have more than"],
    [
      "replaces with more",
      "size(input.text.replace('a', input.text))",
      "a text would have more than",
    ],
    ["splits into letters", "size(input.text.split(''))", "a list would have more than"],
    ["writes out a small value that is huge", nested, "the value has more than 8388608 bytes"],
  ])("that %s is refused", async (_what, source, message) => {
    await expect(valueOf(source, { input: { list, text } })).rejects.toThrow(message);
  });

  it.each([
    ["loops over loops over loops", "input.all(a, input.all(b, input.all(c, a + b + c >= 0)))"],
    ["compares what is nested thirty times", `${nested} == ${nested}`],
    [
      "searches long texts again and again",
      // Endless, so that no machine finishes before it is stopped.
      "input.all(x, input.all(y, !('a' + string(x)).matches('(a|b|ab)*c')))",
    ],
  ])("that %s is stopped, and others are evaluated after it", async (_what, source) => {
    await using impatient = new Evaluator({ maxCpuMs: 100 });
    const long = list
      .concat(list, list, list)
      .map((x) => (source.includes("matches") ? text.slice(0, 200) + x : x));
    const hostile = impatient.evaluate([source], { input: long });
    const harmless = impatient.evaluate(["1 + 1"], {});
    await expect(hostile).rejects.toThrow("took more than 0.1 s of processor time");
    expect(await harmless).toEqual([2]);
  });

  it("that uses all memory ends its thread, not the process", async () => {
    await using own = new Evaluator({ maxCpuMs: 60_000 });
    const hoard = "size(input.list.map(x, (input.text + string(x)).lowerAscii()))";
    const upper = "A".repeat(1024 * 1024 - 10);
    await expect(own.evaluate([hoard], { input: { list, text: upper } })).rejects.toThrow(
      "took too much memory",
    );
    expect(await own.evaluate(["1 + 1"], {})).toEqual([2]);
  });

  it("does not block the process while it runs", async () => {
    await using impatient = new Evaluator({ maxCpuMs: 100 });
    const hostile = impatient.evaluate(
      ["input.all(a, input.all(b, input.all(c, a + b + c >= 0)))"],
      { input: list },
    );
    let turns = 0;
    const counting = setInterval(() => (turns += 1), 1);
    await expect(hostile).rejects.toThrow("took more than 0.1 s");
    clearInterval(counting);
    expect(turns).toBeGreaterThan(0);
  });

  it("that reads too much is refused before it is evaluated", async () => {
    await using small = new Evaluator({ maxBytes: 1000 });
    await expect(small.evaluate(["size(input)"], { input: text })).rejects.toThrow(
      "the values that the expression reads have more than 1000 bytes",
    );
  });

  it("that is nested a thousand levels deep is refused when it is read", () => {
    for (const source of [
      "(".repeat(3900) + "1" + ")".repeat(3900),
      "[".repeat(500) + "]".repeat(500),
    ])
      expect(() => parseExpression(source)).toThrow(/nested too deeply/);
    expect(() => parseExpression("1 + ".repeat(3000) + "1")).toThrow(/longer than 8000/);
  });
});
