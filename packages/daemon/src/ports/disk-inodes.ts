/** How many files and directories a disk has room for, on every backend. */

/** What a disk sets aside for each file or directory, used or not. */
const INODE_BYTES = 256;

/** At least half of a disk is left for file contents. */
export function mostInodes(diskBytes: number): number {
  return Math.floor(diskBytes / 2 / INODE_BYTES);
}
