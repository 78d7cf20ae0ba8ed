/**
 * The npm packages that a published package needs, with the versions that are installed in this
 * clone and were tested. The clone's tree has a `node_modules` for each workspace; a published
 * package has only one, so packages are placed again, each as high as possible without hiding
 * another.
 */

export interface LockEntry {
  readonly name?: string;
  readonly version: string;
  readonly integrity?: string;
  readonly optional?: boolean;
  readonly hasInstallScript?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

export type Lock = Readonly<Record<string, LockEntry>>;

export interface PlacedTree {
  /** Exact versions of the direct dependencies. */
  readonly dependencies: Readonly<Record<string, string>>;
  /** Each location in the published tree, with its location in the clone. Sorted. */
  readonly placed: ReadonlyMap<string, string>;
}

/** @param workspaces - Directories whose dependencies the package has, such as `packages/cli`. */
export function placeDependencies(lock: Lock, workspaces: readonly string[]): PlacedTree {
  const direct = directDependencies(lock, workspaces);
  const tree = new Tree(lock);
  for (const [name, source] of direct) tree.put("", name, source);
  tree.completeAll();
  const dependencies = [...direct].map(([name, source]) => [name, entryAt(lock, source).version]);
  return {
    dependencies: Object.fromEntries(dependencies),
    placed: new Map([...tree.placed].toSorted(([a], [b]) => (a < b ? -1 : 1))),
  };
}

function entryAt(lock: Lock, location: string): LockEntry {
  const entry = lock[location];
  if (entry === undefined) throw new Error(`package-lock.json has nothing at "${location}"`);
  return entry;
}

/** Where a module at a location finds a package, by Node's resolution. */
function resolveIn(has: (path: string) => boolean, from: string, name: string): string | undefined {
  for (let at = from; ; at = parentOf(at)) {
    const path = join(at, name);
    if (has(path)) return path;
    if (at === "") return undefined;
  }
}

const join = (at: string, name: string): string =>
  at === "" ? `node_modules/${name}` : `${at}/node_modules/${name}`;

/** The parent directory, which contains the next `node_modules`. */
function parentOf(location: string): string {
  const end = location.lastIndexOf("node_modules/");
  return end <= 0 ? "" : location.slice(0, end - 1);
}

/** If workspaces want different versions, all get the newest. */
function directDependencies(lock: Lock, workspaces: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const workspace of workspaces) {
    for (const name of Object.keys(entryAt(lock, workspace).dependencies ?? {})) {
      if (name.startsWith("@sandkasten/")) continue;
      const source = resolveIn((path) => path in lock, workspace, name);
      if (source === undefined)
        throw new Error(`${workspace} depends on ${name}, which is missing`);
      const other = found.get(name);
      if (other === undefined || isNewer(lock, source, other)) found.set(name, source);
    }
  }
  return new Map([...found].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function isNewer(lock: Lock, source: string, other: string): boolean {
  const [versions, others] = [source, other].map((location) =>
    entryAt(lock, location).version.split(".").map(Number),
  );
  if (versions?.[0] !== others?.[0])
    throw new Error(`${source} and ${other} differ too much for one package`);
  const at = versions?.findIndex((number, index) => number !== others?.[index]) ?? -1;
  return at !== -1 && (versions?.[at] ?? 0) > (others?.[at] ?? 0);
}

class Tree {
  readonly placed = new Map<string, string>();
  readonly #lock: Lock;
  /** Which source each completed package must find under each name. */
  readonly #edges: { readonly from: string; readonly name: string; readonly source: string }[] = [];

  constructor(lock: Lock) {
    this.#lock = lock;
  }

  put(at: string, name: string, source: string): void {
    this.placed.set(join(at, name), source);
  }

  completeAll(): void {
    // The map grows during the iteration: each package comes after those that are closer to the
    // root.
    for (const [location, source] of this.placed) this.#complete(location, source);
  }

  #complete(location: string, source: string): void {
    for (const [name, wanted] of this.#needs(source)) {
      this.#edges.push({ from: location, name, source: wanted });
      const found = resolveIn((path) => this.placed.has(path), location, name);
      if (found !== undefined && this.#isSame(found, wanted)) continue;
      const place = ancestors(location).find((at) => this.#fits(at, name, wanted));
      if (place === undefined) throw new Error(`${name} has no place below ${location}`);
      this.put(place, name, wanted);
    }
  }

  /** The dependencies of a package in the clone, by name, and their locations. */
  #needs(source: string): [string, string][] {
    const entry = entryAt(this.#lock, source);
    const meta = entry.peerDependenciesMeta ?? {};
    const peers = Object.keys(entry.peerDependencies ?? {}).filter((name) => !meta[name]?.optional);
    const optional = Object.keys(entry.optionalDependencies ?? {});
    const names = [...Object.keys(entry.dependencies ?? {}), ...optional, ...peers];
    return [...new Set(names)].toSorted().flatMap((name): [string, string][] => {
      const wanted = resolveIn((path) => path in this.#lock, source, name);
      const isOptional = optional.includes(name);
      // Packages that would be compiled on installation are skipped: nothing needs them.
      if (wanted !== undefined && isOptional && entryAt(this.#lock, wanted).hasInstallScript)
        return [];
      if (wanted !== undefined) return [[name, wanted]];
      if (isOptional) return [];
      throw new Error(`${source} needs ${name}, which is not in package-lock.json`);
    });
  }

  #isSame(location: string, source: string): boolean {
    const placed = this.placed.get(location);
    return (
      placed !== undefined &&
      (placed === source || isSameRelease(entryAt(this.#lock, placed), entryAt(this.#lock, source)))
    );
  }

  #fits(at: string, name: string, source: string): boolean {
    const path = join(at, name);
    if (this.placed.has(path)) return false;
    this.placed.set(path, source);
    const isRight = this.#edges.every((edge) => {
      const found = resolveIn((place) => this.placed.has(place), edge.from, edge.name);
      // An edge whose package is not placed yet finds nothing, which is not a conflict.
      return edge.name !== name || found === undefined || this.#isSame(found, edge.source);
    });
    this.placed.delete(path);
    return isRight;
  }
}

/** From the root down to the location itself. */
function ancestors(location: string): string[] {
  const all = [location];
  for (let at = location; at !== "";) {
    at = parentOf(at);
    all.unshift(at);
  }
  return all;
}

function isSameRelease(one: LockEntry, other: LockEntry): boolean {
  return one.integrity !== undefined && one.integrity === other.integrity;
}
