/** Numbers and times as people read them. */

const BYTE_UNITS = ["B", "KB", "MB", "GB", "TB"] as const;

export function bytes(count: number): string {
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < BYTE_UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${BYTE_UNITS[unit]}`;
}

/** The two largest units: `3 h 12 min`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
  const days = Math.floor(hours / 24);
  return hours % 24 === 0 ? `${days} d` : `${days} d ${hours % 24} h`;
}

export function since(time: string, nowMs: number): string {
  const ms = nowMs - Date.parse(time);
  return ms < 1000 ? "0 s" : duration(ms);
}

export function until(time: string, nowMs: number): string {
  const ms = Date.parse(time) - nowMs;
  return ms <= 0 ? "now" : duration(ms);
}

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const dateAndClock = new Intl.DateTimeFormat(undefined, {
  dateStyle: "medium",
  timeStyle: "short",
});

export const timeOfDay = (time: string): string => clock.format(new Date(time));
export const dateTime = (time: string): string => dateAndClock.format(new Date(time));

export function percent(share: number): string {
  const value = share * 100;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} %`;
}

/** Enough of an id to tell sessions apart. */
export function shortId(id: string): string {
  return id.length > 16 ? `${id.slice(0, 12)}…` : id;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
