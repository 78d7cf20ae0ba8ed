import { expect, test } from "vitest";
import { REQUEST_RATE, RequestRate } from "./request-rate.ts";

test("a burst is free, further requests wait, and the allowance recovers over time", () => {
  const rate = new RequestRate(REQUEST_RATE);
  for (let count = 0; count < 2_000; count++) expect(rate.take(5)).toBe(0);
  expect(rate.take(5)).toBe(1);
  expect(rate.take(5)).toBe(2);
  for (let count = 0; count < 10_000; count++) rate.take(5);
  expect(rate.take(5)).toBe(250);
  expect(rate.take(20_000)).toBe(0);
});
