/** The daemon's version: that of its package. */
import manifest from "../package.json" with { type: "json" };

export const VERSION = manifest.version;
