/** The port through which the core learns the time. */

export interface Clock {
  /** Wall time, for people and for what is shown; it may jump. */
  nowMs(): number;
  /**
   * Time since the machine started, in milliseconds. It never jumps, and all processes of one boot
   * share it, so that a lease may be counted in it across restarts of the daemon.
   */
  monotonicMs(): number;
  /** Names the boot that `monotonicMs` counts from. */
  readonly bootId: string;
}
