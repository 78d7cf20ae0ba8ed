/** The place of a record. */

/** Where a record begins: in the file, in the output, and in the sequence of records. */
export interface RecordPosition {
  readonly position: number;
  readonly offset: number;
  readonly seq: number;
  /** The record's bytes already matched its checksum. */
  readonly isChecked?: boolean;
}
