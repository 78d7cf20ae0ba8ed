/** What a reader knows of a command's output before it opens a file. */

export interface OutputView {
  readonly directory: string;
  /** In the order of their offsets. */
  readonly segments: readonly SegmentView[];
  /** Where the output ends now; known while a writer is open. */
  readonly endOffset?: number;
  /** Reads from the segment that is being written, through the writer's own file; undefined when it is another one now. */
  readonly readNow?: (first: number, target: Buffer, position: number) => number | undefined;
}

export interface SegmentView {
  readonly first: number;
  /** How far the file is good; known while a writer is open. */
  readonly bytes?: number;
}
