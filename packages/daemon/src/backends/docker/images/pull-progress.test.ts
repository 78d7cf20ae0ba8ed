import { expect, test } from "vitest";
import type { ImageProgress } from "../../../ports/image-store.ts";
import type { EngineEvent } from "./engine-events.ts";
import { PullProgress } from "./pull-progress.ts";

function told(events: readonly EngineEvent[]): ImageProgress[] {
  const news: ImageProgress[] = [];
  const progress = new PullProgress((each) => news.push(each), 10_000);
  for (const event of events) progress.take(event);
  return news;
}

const begun = (...ids: string[]): EngineEvent[] =>
  ids.map((id) => ({ status: "Pulling fs layer", id }));
const downloading = (id: string, current: number, total: number): EngineEvent => ({
  status: "Downloading",
  id,
  current,
  total,
});
const extracting = (id: string, current: number, total: number): EngineEvent => ({
  status: "Extracting",
  id,
  current,
  total,
});

test("layers are added up, and the total is reported once all sizes are known", () => {
  expect(
    told([
      { status: "Pulling from team/app", id: "1" },
      ...begun("a", "b"),
      { status: "Already exists", id: "z" },
      { status: "Waiting", id: "b" },
      downloading("a", 10, 100),
      downloading("b", 5, 50),
      { status: "Download complete", id: "b" },
      extracting("b", 20, 50),
      { status: "Download complete", id: "a" },
      extracting("a", 100, 100),
      { status: "Pull complete", id: "a" },
      { status: "Pull complete", id: "b" },
      { status: "Digest: sha256:00" },
    ]),
  ).toEqual([
    { phase: "download", done: 10 },
    { phase: "download", done: 15, total: 150 },
    { phase: "download", done: 60, total: 150 },
    { phase: "unpack", done: 20, total: 150 },
    { phase: "unpack", done: 120, total: 150 },
    { phase: "unpack", done: 150, total: 150 },
  ]);
});

test("a reported total stays, even if small layers are reported late or never", () => {
  expect(
    told([
      ...begun("a", "b", "c"),
      { status: "Download complete", id: "b" },
      downloading("a", 10, 100),
      { status: "Download complete", id: "c" },
      { status: "Download complete", id: "a" },
      extracting("a", 100, 100),
      { status: "Pull complete", id: "a" },
      extracting("b", 30, 50),
      { status: "Pull complete", id: "b" },
      { status: "Pull complete", id: "c" },
    ]),
  ).toEqual([
    { phase: "download", done: 10 },
    { phase: "unpack", done: 0 },
    { phase: "unpack", done: 100 },
    { phase: "unpack", done: 130 },
    { phase: "unpack", done: 150 },
    { phase: "unpack", done: 150, total: 150 },
  ]);
});

test("a download that the engine restarts does not go backwards", () => {
  expect(
    told([
      ...begun("a"),
      downloading("a", 80, 100),
      { status: "Retrying in 5 seconds", id: "a" },
      downloading("a", 10, 100),
      downloading("a", 90, 100),
    ]).map(({ done }) => done),
  ).toEqual([80, 90]);
});

test("an image that already exists has no progress", () => {
  expect(
    told([
      { status: "Already exists", id: "a" },
      { status: "Status: Image is up to date for app:1" },
    ]),
  ).toEqual([]);
});

test("more bytes than allowed end the pull", () => {
  expect(() =>
    told([...begun("a", "b"), downloading("a", 1, 6000), downloading("b", 1, 6000)]),
  ).toThrow(expect.objectContaining({ code: "INVALID_IMAGE" }));
});
