/**
 * Bit patterns that distinguish numbers, in the only form that a seccomp rule can express: `(x &
 * mask) === value`.
 */

export interface MaskedPattern {
  readonly mask: number;
  readonly value: number;
}

/**
 * The patterns that together match every number except `excluded`, as far as the bits
 * `high`…`low` distinguish them.
 *
 * A rule can say "equal under a mask" but not "unequal under a mask", and a plain "unequal" compares
 * all 64 bits of the register although the kernel reads only some: `TIOCSTI | 1 << 32` would
 * pass it. So the differences are listed instead: walk down from the highest bit, and where no
 * excluded number shares the prefix, one pattern covers everything with that prefix.
 */
export function patternsExcept(
  excluded: readonly number[],
  bits: { readonly high: number; readonly low: number },
): MaskedPattern[] {
  const patterns: MaskedPattern[] = [];
  const visit = (bit: number, mask: number, value: number): void => {
    if (!excluded.some((number) => (number & mask) >>> 0 === value)) {
      patterns.push({ mask, value });
      return;
    }
    if (bit < bits.low) return;
    const one = (1 << bit) >>> 0;
    visit(bit - 1, (mask | one) >>> 0, value);
    visit(bit - 1, (mask | one) >>> 0, (value | one) >>> 0);
  };
  visit(bits.high, 0, 0);
  return patterns;
}
