/** The functions that expressions may call, and limits on those that make values grow. */
import { celFunc, celList, celMethod, CelScalar, listType, mapType } from "@bufbuild/cel";
import type { CelFunc, CelInput, CelList } from "@bufbuild/cel";

const { BOOL, DYN, INT, STRING } = CelScalar;
const LIST = listType(DYN);
const MAP = mapType(DYN, DYN);

/** Limits of every intermediate value. */
export const MAX_TEXT_LENGTH = 1024 * 1024;
export const MAX_LIST_LENGTH = 10_000;

/** The arrays behind lists made here: copying those is far faster than reading the list. */
const arrays = new WeakMap<object, readonly CelInput[]>();

function arrayOf(list: CelList): readonly CelInput[] {
  return arrays.get(list) ?? [...list];
}

function limitedList(values: readonly CelInput[]): CelList {
  if (values.length > MAX_LIST_LENGTH)
    throw new Error(`a list would have more than ${MAX_LIST_LENGTH} entries`);
  const list = celList(values);
  arrays.set(list, values);
  return list;
}

function refuseLongText(length: number): void {
  if (length > MAX_TEXT_LENGTH)
    throw new Error(`a text would have more than ${MAX_TEXT_LENGTH} characters`);
}

function replaceAll(text: string, from: string, to: string): string {
  const pieces = text.split(from);
  refuseLongText(text.length + (pieces.length - 1) * (to.length - from.length));
  return pieces.join(to);
}

function joinTexts(list: CelList, separator: string): string {
  const texts = [...list].map((value) => {
    if (typeof value !== "string") throw new Error("join() takes a list of texts");
    return value;
  });
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  refuseLongText(length + separator.length * texts.length);
  return texts.join(separator);
}

/**
 * SECURITY: doubling a text or a list a few dozen times exhausts the memory of the whole process
 * before any deadline, so operations that make values longer are replaced by limited ones. Guarded by
 * evaluator.test.ts.
 */
export const LIMITED_FUNCTIONS: CelFunc[] = [
  celFunc("_+_", [STRING, STRING], STRING, (a, b) => {
    refuseLongText(a.length + b.length);
    return a + b;
  }),
  // The built-in concatenation nests one level deeper with each entry that map() and filter() add.
  celFunc("_+_", [LIST, LIST], LIST, (a, b) => limitedList(arrayOf(a).concat(arrayOf(b)))),
  // The built-in `in` does not find an entry whose value is null.
  celFunc("@in", [STRING, MAP], BOOL, (key, map) => [...map.keys()].includes(key)),
  celMethod("charAt", STRING, [INT], STRING, function (index) {
    return this.charAt(Number(index));
  }),
  celMethod("indexOf", STRING, [STRING], INT, function (text) {
    return BigInt(this.indexOf(text));
  }),
  celMethod("lastIndexOf", STRING, [STRING], INT, function (text) {
    return BigInt(this.lastIndexOf(text));
  }),
  celMethod("substring", STRING, [INT], STRING, function (from) {
    return this.substring(Number(from));
  }),
  celMethod("substring", STRING, [INT, INT], STRING, function (from, to) {
    return this.substring(Number(from), Number(to));
  }),
  celMethod("lowerAscii", STRING, [], STRING, function () {
    return this.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
  }),
  celMethod("upperAscii", STRING, [], STRING, function () {
    return this.replace(/[a-z]+/g, (letters) => letters.toUpperCase());
  }),
  celMethod("trim", STRING, [], STRING, function () {
    return this.trim();
  }),
  celMethod("replace", STRING, [STRING, STRING], STRING, function (from, to) {
    return replaceAll(this, from, to);
  }),
  celMethod("split", STRING, [STRING], LIST, function (separator) {
    return limitedList(this.split(separator, MAX_LIST_LENGTH + 1));
  }),
  celMethod("join", LIST, [], STRING, function () {
    return joinTexts(this, "");
  }),
  celMethod("join", LIST, [STRING], STRING, function (separator) {
    return joinTexts(this, separator);
  }),
];

/** What can be called by name, as a function or as a method, except macros. */
export const CALLABLE_NAMES: ReadonlySet<string> = namesIn(`
  bool double duration dyn int size string timestamp type uint
  contains endsWith matches startsWith
  charAt indexOf join lastIndexOf lowerAscii replace split substring trim upperAscii
  getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours
  getMilliseconds getMinutes getMonth getSeconds
`);

export const MACRO_NAMES: ReadonlySet<string> = namesIn("all exists exists_one filter has map");

/** Names of types, used as values: `type(x) == string`. */
export const TYPE_NAMES: ReadonlySet<string> = namesIn(
  "bool bytes double int list map null_type string type uint",
);

function namesIn(words: string): ReadonlySet<string> {
  return new Set(words.trim().split(/\s+/));
}
