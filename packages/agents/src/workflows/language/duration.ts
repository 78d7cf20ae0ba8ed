/** Durations as people write them: seconds, or 90s, 5m, 1h30m, 2d. */

const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
const MAX_MS = 366 * 86_400_000;

/** Milliseconds, or undefined if it is not a duration. */
export function durationMs(written: number | string): number | undefined {
  const ms = typeof written === "number" ? written * 1000 : textMs(written.trim());
  return ms !== undefined && Number.isFinite(ms) && ms >= 0 && ms <= MAX_MS
    ? Math.round(ms)
    : undefined;
}

function textMs(text: string): number | undefined {
  if (/^\d+(?:\.\d+)?$/.test(text)) return Number(text) * 1000;
  if (!/^(?:\d+(?:\.\d+)?(?:ms|[smhd]))+$/.test(text)) return undefined;
  let ms = 0;
  for (const [, count, unit = ""] of text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhd])/g))
    ms += Number(count) * (UNITS_MS[unit] ?? Number.NaN);
  return ms;
}
