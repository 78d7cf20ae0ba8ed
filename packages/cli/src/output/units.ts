/** Formats and parses sizes, durations and times. */
import { InvalidArgumentError } from "commander";

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < BYTE_UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${BYTE_UNITS[unit] ?? ""}`;
}

export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)}ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m${Math.floor(seconds % 60)}s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h${minutes % 60}m` : `${Math.floor(hours / 24)}d`;
}

/** "5m3s ago" and "in 30m0s". */
export function formatMoment(timestamp: string, nowMs: number): string {
  const ms = Date.parse(timestamp) - nowMs;
  return ms > 0 ? `in ${formatDuration(ms)}` : `${formatDuration(-ms)} ago`;
}

const DURATION_UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** `30` and `30s` are seconds; `500ms`, `5m` and `2h` have their units. */
export function parseDurationMs(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text);
  const ms = Math.round(Number(match?.[1]) * (DURATION_UNITS[match?.[2] ?? "s"] ?? Number.NaN));
  if (!Number.isSafeInteger(ms))
    throw new InvalidArgumentError("Write a duration as in 30s, 500ms, 5m or 2h.");
  return ms;
}

const SIZE_UNITS: Readonly<Record<string, number>> = { m: 1, g: 1024, t: 1024 * 1024 };

/** `512`, `512m` and `2g` as MiB. */
export function parseMebibytes(text: string): number {
  const match = /^(\d+(?:\.\d+)?)([mgt])?(?:i?b)?$/i.exec(text);
  const size = Number(match?.[1]) * (SIZE_UNITS[(match?.[2] ?? "m").toLowerCase()] ?? Number.NaN);
  if (!Number.isSafeInteger(size) || size < 1)
    throw new InvalidArgumentError("Write a size as in 512m or 2g.");
  return size;
}
