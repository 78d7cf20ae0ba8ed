/** The contents of the standard images, by name. */

export type StandardName = "base" | "python" | "node";

export interface StandardImage {
  /** Packages of Debian. */
  readonly debian: readonly string[];
  /** Packages of the Python Package Index, pinned. */
  readonly pip: readonly string[];
  /** Packages of the npm registry, pinned; `node-linux-*` is Node itself. */
  readonly npm: readonly string[];
}

const NODE_VERSION = "24.21.0";

const BASE: readonly string[] = [
  ..."bash ca-certificates coreutils curl file findutils git gzip jq less openssh-client".split(
    " ",
  ),
  ..."patch procps ripgrep rsync sqlite3 tar tree unzip vim-tiny xz-utils zip".split(" "),
  ..."build-essential pkg-config python3".split(" "),
];

export const STANDARD_IMAGES: Readonly<Record<StandardName, StandardImage>> = {
  base: { debian: BASE, pip: [], npm: [] },
  python: {
    debian: [...BASE, "python3-dev", "python3-pip", "python3-venv"],
    pip: [
      "numpy==2.4.6",
      "pandas==3.1.1",
      "matplotlib==3.11.2",
      "requests==2.34.2",
      "beautifulsoup4==4.15.0",
      "openpyxl==3.1.5",
      "pytest==9.2.0",
    ],
    npm: [],
  },
  node: {
    debian: [...BASE, "libatomic1"],
    pip: [],
    npm: [nodePackage(), "npm@11.21.1", "typescript@5.9.3", "tsx@4.23.15"],
  },
};

export const STANDARD_NAMES = Object.keys(STANDARD_IMAGES) as readonly StandardName[];

/** With its registry, the name means the image itself; the daemon finds it by its short name. */
export function standardReference(name: StandardName): string {
  return `docker.io/sandbox-runtime:${name}`;
}

/** Node as an npm package for this machine's architecture, which is also that of its sandboxes. */
function nodePackage(): string {
  return `node-linux-${process.arch}@${NODE_VERSION}`;
}
