/** Reusable memory for bytes in transit: allocating memory for each read costs more than moving the bytes. */

/** Each size is four times the previous one, so at most three quarters of a block are wasted. */
const SIZES = [16_384, 65_536, 262_144] as const;
export const LARGEST_BLOCK_BYTES = SIZES[2];
/** For smaller blocks, Node's own pool is as good. */
const LEAST_BYTES = SIZES[0] / 4;
const MAX_SPARE_BLOCKS = 16;

export interface Block {
  readonly memory: Buffer;
  /** Declares that the memory is no longer in use. A block that is not released is never reused. */
  readonly release: () => void;
}

const spareBlocks: Readonly<Record<(typeof SIZES)[number], Buffer[]>> = {
  16_384: [],
  65_536: [],
  262_144: [],
};

/** A block of exactly this size. */
export function takeBlock(size: (typeof SIZES)[number]): Block {
  const spare = spareBlocks[size];
  const memory = spare.pop() ?? Buffer.allocUnsafeSlow(size);
  let isHeld = true;
  const release = (): void => {
    if (isHeld && spare.length < MAX_SPARE_BLOCKS) spare.push(memory);
    isHeld = false;
  };
  return { memory, release };
}

/** A block with exactly these bytes. */
export function copyToBlock(bytes: Uint8Array): Block {
  const size = SIZES.find((each) => each >= bytes.byteLength);
  if (size === undefined || bytes.byteLength < LEAST_BYTES)
    return { memory: Buffer.from(bytes), release: () => undefined };
  const { memory, release } = takeBlock(size);
  memory.set(bytes);
  return { memory: memory.subarray(0, bytes.byteLength), release };
}
