/** A `sandbox:` block that cannot be used. */

export class SettingsError extends Error {
  override readonly name = "SettingsError";
  /** The path in the block, so that the caller can add line and column. */
  readonly path: readonly (string | number)[];

  constructor(message: string, path: readonly (string | number)[] = []) {
    super(message);
    this.path = path;
  }
}
