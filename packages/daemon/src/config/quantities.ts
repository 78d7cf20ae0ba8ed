/** Durations and sizes as people write them in variables and flags. */

const MILLISECONDS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

const BYTES: Readonly<Record<string, number>> = {
  B: 1,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

/** The milliseconds in a duration such as `30m`, `1h30m` or `1.5s`; undefined if invalid. */
export function durationMs(text: string): number | undefined {
  if (!/^(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+$/.test(text)) return undefined;
  let total = 0;
  for (const [, count, unit = ""] of text.matchAll(/(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)/g)) {
    total += Number(count) * (MILLISECONDS[unit] ?? Number.NaN);
  }
  // 1.1h is 3960000.0000000005 in floating point.
  return Math.round(total * 1e6) / 1e6;
}

/** The bytes in a size such as `8MiB`; undefined if invalid. Only unambiguous units are accepted. */
export function sizeBytes(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?) ?(B|KiB|MiB|GiB|TiB)$/.exec(text);
  return match === null ? undefined : Number(match[1]) * (BYTES[match[2] ?? ""] ?? Number.NaN);
}
