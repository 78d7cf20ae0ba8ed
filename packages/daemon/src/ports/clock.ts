/** The port through which the core learns the time. */

export interface Clock {
  /** Wall time, for display; it may jump. */
  nowMs(): number;
  /**
   * Milliseconds since the machine started. It never jumps, and all processes of one boot share it,
   * so leases can be measured with it across daemon restarts.
   */
  monotonicMs(): number;
  /** Names the boot that `monotonicMs` counts from. */
  readonly bootId: string;
}
