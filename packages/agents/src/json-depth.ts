/** How deeply values are nested: too deep a value overflows the stack of any code that walks it. */

/** Whether lists and objects are nested more than `levels` deep. Never overflows itself. */
export function isDeeperThan(value: unknown, levels: number): boolean {
  let layer: readonly unknown[] = [value];
  for (let depth = 0; depth <= levels; depth++) {
    layer = layer.flatMap((item) =>
      typeof item === "object" && item !== null ? Object.values(item) : [],
    );
    if (layer.length === 0) return false;
  }
  return layer.length > 0;
}
