import { expect, test } from "vitest";
import { BUDGETS, judge } from "./budgets.ts";
import type { Budget } from "./budgets.ts";
import type { Series } from "./series.ts";

const series = (name: string, ...samples: number[]): Series => ({
  scenario: "race",
  name,
  unit: "us",
  samples,
});

const budget: Budget = {
  what: "ours at most half of theirs",
  subject: "race/ours",
  share: 0.5,
  against: { series: "race/theirs" },
  atMost: 0.5,
};

test("judge() keeps a budget up to its limit and not beyond", () => {
  const theirs = series("theirs", 100, 200, 300);
  expect(judge([budget], [series("ours", 1, 100, 999), theirs])).toEqual([
    { budget, kept: true, ratio: 0.5 },
  ]);
  expect(judge([budget], [series("ours", 101), theirs])).toEqual([
    { budget, kept: false, ratio: 0.505 },
  ]);
});

test("judge() compares the worst sample if the share is everything", () => {
  const memory: Budget = { ...budget, share: 1, against: { bytes: 100 }, atMost: 1 };
  expect(judge([memory], [series("ours", 10, 250)])).toMatchObject([{ kept: false, ratio: 2.5 }]);
});

test("judge() compares with a fixed time", () => {
  const inTime: Budget = { ...budget, against: { us: 2000 }, atMost: 1 };
  expect(judge([inTime], [series("ours", 2000)])).toMatchObject([{ kept: true, ratio: 1 }]);
  expect(judge([inTime], [series("ours", 2002)])).toMatchObject([{ kept: false, ratio: 1.001 }]);
});

test("judge() names the series that a budget lacks and does not call it met", () => {
  expect(judge([budget], [series("ours", 1)])).toEqual([
    { budget, kept: undefined, missing: "race/theirs" },
  ]);
  expect(judge([budget], [series("ours"), series("theirs", 1)])).toEqual([
    { budget, kept: undefined, missing: "race/ours" },
  ]);
});

test("a slow single create does not excuse a slow burst", () => {
  const burst = (name: string, ...samples: number[]): Series => ({
    ...series(`HTTP, ${name}`, ...samples),
    scenario: "create burst",
  });
  const ofBurst = BUDGETS.filter(
    ({ subject, against }) =>
      subject.startsWith("create burst/") && "series" in against && against.series.includes("lone"),
  );
  expect(
    judge(ofBurst, [
      burst("lone create, first true", 10, 10, 10, 1000),
      burst("first ready", 21, 21, 21),
      burst("all ready", 601, 601, 601),
    ]),
  ).toMatchObject([
    { kept: false, ratio: 2.1 },
    { kept: false, ratio: 60.1 },
  ]);
});

test("no two budgets compare the same series with the same baseline", () => {
  const pairs = BUDGETS.map(({ subject, against }) => JSON.stringify([subject, against]));
  expect(new Set(pairs).size).toBe(BUDGETS.length);
});
