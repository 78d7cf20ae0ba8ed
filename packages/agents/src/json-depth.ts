/** How deep values are nested: what is too deep overflows the stack of all that walks through it. */

/** Whether lists and objects stand in each other on more than `levels` levels. Never overflows itself. */
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
