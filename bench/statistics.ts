/** Statistics of a series of samples: percentiles, and ratios. */

/** The sample below which this share of all samples lies, interpolated linearly. */
export function percentile(samples: readonly number[], share: number): number {
  if (samples.length === 0) throw new RangeError("there is no percentile of no samples");
  if (!(share >= 0 && share <= 1)) throw new RangeError(`${share} is not between 0 and 1`);
  const sorted = samples.toSorted((a, b) => a - b);
  const place = share * (sorted.length - 1);
  const below = sorted[Math.floor(place)] ?? Number.NaN;
  const above = sorted[Math.ceil(place)] ?? Number.NaN;
  return below + (above - below) * (place - Math.floor(place));
}

export function median(samples: readonly number[]): number {
  return percentile(samples, 0.5);
}

/** The ratio of the first value to the second. */
export function ratio(value: number, baseline: number): number {
  if (!(baseline > 0)) throw new RangeError(`${baseline} is nothing to compare with`);
  return value / baseline;
}
