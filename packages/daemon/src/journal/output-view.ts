/** What a reader knows about a command's output before it opens a file. */

export interface OutputView {
  readonly directory: string;
  /** Ordered by offset. */
  readonly segments: readonly SegmentView[];
  /** The current end of the output; known while a writer is open. */
  readonly endOffset?: number;
  /**
   * Reads from the segment that is being written, through the writer's file; undefined if the
   * writer has moved to another segment.
   */
  readonly readNow?: (first: number, target: Buffer, position: number) => number | undefined;
}

export interface SegmentView {
  readonly first: number;
  /** How much of the file is valid; known while a writer is open. */
  readonly bytes?: number;
}
