/**
 * Chooses where workspaces are stored, depending on where this daemon and its engine run. That the
 * engine sees one of our directories is verified before use, never assumed: the same path may be
 * another directory on its side, or none.
 */
import { join, relative } from "node:path";
import { SandboxError } from "@sandkasten/protocol";
import { atLeast } from "../../container/runtime-versions.ts";
import type { MountSource } from "../container-settings.ts";
import type { Engine } from "../engine.ts";
import { isLocal } from "../engine-connection.ts";
import type { EngineContainer, EngineFacts } from "../engine-view.ts";
import { withIdleContainer } from "../idle-container.ts";
import type { StrategyName } from "../sandbox-labels.ts";
import type { OwnSurroundings } from "./own-container.ts";
import type { SessionDirectories } from "./session-directories.ts";
import { ContainerPlaces, DirectoryPlaces, VolumePlaces } from "./workspace-places.ts";
import type { WorkspacePlaces } from "./workspace-places.ts";
import { exists } from "../../../exists.ts";

export interface WorkspaceOptions {
  readonly strategy: StrategyName | "auto";
  /** `bind`: the base directory for sessions on this machine. */
  readonly dir: string;
  /** `shared-volume`: the volume, and where it is mounted in the daemon. */
  readonly sharedVolume: string;
  readonly sharedDir: string;
}

export interface ChosenPlaces {
  readonly places: WorkspacePlaces;
  /** The reason, for display. */
  readonly why: string;
}

export interface ChooserParts {
  readonly engine: Engine;
  /** The instance of the sandboxes; other daemons may share it. */
  readonly instance: string;
  readonly daemon: string;
  readonly options: WorkspaceOptions;
  readonly bindDirectories: SessionDirectories;
  readonly sharedDirectories: SessionDirectories;
  readonly surroundings: () => Promise<OwnSurroundings>;
}

/** From this API version on, engines can mount a part of a volume. */
const SUBPATH_FROM = [1, 45];

/** The error codes of a mount that the engine refuses, or a directory that we refuse. */
const REFUSALS: ReadonlySet<string> = new Set(["INTERNAL_ERROR", "UNSUPPORTED"]);

/** The result of trying a strategy: its places, or why it does not work. */
type Attempt = { readonly places: WorkspacePlaces } | { readonly fault: string };

/** @param imageId - Any image of the engine, for a container that is never started. */
export async function choosePlaces(
  parts: ChooserParts,
  facts: EngineFacts,
  imageId: string,
): Promise<ChosenPlaces> {
  const { engine, options } = parts;
  switch (options.strategy) {
    case "volume":
      return { places: new VolumePlaces(engine), why: "as configured" };
    case "exec":
      return { places: new ContainerPlaces(engine), why: "as configured" };
    case "bind":
    case "shared-volume": {
      const own = await ownContainer(parts);
      const attempt =
        options.strategy === "bind"
          ? await tryBind(parts, facts, imageId, own)
          : await tryShared(parts, facts, imageId, own);
      if ("places" in attempt) return { ...attempt, why: "as configured" };
      throw new SandboxError(
        "UNSUPPORTED",
        `the workspace strategy ${options.strategy} does not work: ${attempt.fault}; set docker.workspace to volume or auto`,
      );
    }
    case "auto":
      return await chooseBySurroundings(parts, facts, imageId);
  }
}

async function chooseBySurroundings(
  parts: ChooserParts,
  facts: EngineFacts,
  imageId: string,
): Promise<ChosenPlaces> {
  const volume = (why: string): ChosenPlaces => ({ places: new VolumePlaces(parts.engine), why });
  if (!isLocal(parts.engine.connection))
    return volume(
      "the engine is accessed over the network, so it does not share this machine's files",
    );
  const { inContainer } = await parts.surroundings();
  const own = await ownContainer(parts);
  const shared = inContainer ? await tryShared(parts, facts, imageId, own) : undefined;
  if (shared !== undefined && "places" in shared)
    return { ...shared, why: "the daemon runs in a container that has the shared volume" };
  // Not only outside containers: container detection can be wrong, and a shared directory works
  // anyway.
  const bind = await tryBind(parts, facts, imageId, own);
  if ("places" in bind)
    return { ...bind, why: `the daemon and its engine both see ${parts.options.dir}` };
  return volume(
    shared === undefined
      ? bind.fault
      : `the daemon runs in a container, ${shared.fault}, and ${bind.fault}`,
  );
}

async function tryBind(
  parts: ChooserParts,
  facts: EngineFacts,
  imageId: string,
  own: EngineContainer | undefined,
): Promise<Attempt> {
  const { dir } = parts.options;
  const fault = directoryFault(facts);
  if (fault !== undefined) return { fault };
  // If the daemon is in a container of the engine, the directory has another path on its machine.
  const enginePath = own === undefined ? dir : pathOutside(own, dir);
  if (enginePath === undefined) return { fault: `${dir} is inside the container` };
  const sourceOf = (name: string): MountSource => ({
    kind: "directory",
    path: join(enginePath, name),
  });
  const reason = await whyNotShared(parts, imageId, parts.bindDirectories, sourceOf);
  if (reason !== undefined) return { fault: `the engine does not see ${dir} (${reason})` };
  return { places: new DirectoryPlaces("bind", parts.bindDirectories, sourceOf) };
}

async function tryShared(
  parts: ChooserParts,
  facts: EngineFacts,
  imageId: string,
  own: EngineContainer | undefined,
): Promise<Attempt> {
  const { sharedDir, sharedVolume } = parts.options;
  const fault = directoryFault(facts);
  if (fault !== undefined) return { fault };
  if (!(await exists(sharedDir))) return { fault: `${sharedDir} does not exist` };
  // Our container may have been started with another volume name.
  const mounted = own?.mounts.find(({ type, target }) => type === "volume" && target === sharedDir);
  const name = mounted?.name ?? sharedVolume;
  const volume = await parts.engine.inspectVolume(name);
  if (volume === undefined) return { fault: `the engine has no volume ${name}` };
  const bySubpath = atLeast(facts.apiVersion, SUBPATH_FROM);
  const sourceOf = (directory: string): MountSource =>
    bySubpath
      ? { kind: "volume", name, subpath: directory }
      : { kind: "directory", path: join(volume.mountpoint, directory) };
  const reason = await whyNotShared(parts, imageId, parts.sharedDirectories, sourceOf);
  if (reason !== undefined)
    return { fault: `${sharedDir} is not the engine's volume ${name} (${reason})` };
  return { places: new DirectoryPlaces("shared-volume", parts.sharedDirectories, sourceOf) };
}

/** Why directories created by the daemon would not work, independent of their location. */
function directoryFault(facts: EngineFacts): string | undefined {
  if (process.geteuid?.() !== 0)
    return "only a daemon that runs as root can remove files that sandboxes leave in directories";
  if (facts.remapsUsers)
    return "the engine remaps user ids, so containers do not own directories here";
  if (facts.selinux) return "SELinux denies containers access to unlabelled directories";
  return undefined;
}

/** The container of the engine that this daemon runs in. */
async function ownContainer({
  engine,
  surroundings,
}: ChooserParts): Promise<EngineContainer | undefined> {
  for (const candidate of (await surroundings()).candidates) {
    const found = await engine.inspectContainer(candidate);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The path on the engine's machine of a path in a container, if it is in a bind mount. */
function pathOutside({ mounts }: EngineContainer, path: string): string | undefined {
  const [mount] = mounts
    .filter(({ target }) => !relative(target, path).startsWith(".."))
    .toSorted((a, b) => b.target.length - a.target.length);
  if (mount === undefined || mount.type !== "bind") return undefined;
  return join(mount.source, relative(mount.target, path));
}

/**
 * Writes a random text where a workspace would be, and lets the engine read it back. Returns what
 * is wrong if it cannot.
 */
async function whyNotShared(
  { engine, daemon }: ChooserParts,
  imageId: string,
  directories: SessionDirectories,
  sourceOf: (name: string) => MountSource,
): Promise<string | undefined> {
  try {
    return await directories.withToken(async ({ directory, file, text }) => {
      const idle = { daemon, imageId, source: sourceOf(directory) };
      return await withIdleContainer(engine, idle, async (container, mountPoint) => {
        const archive = await engine.getArchive(container, `${mountPoint}/${file}`);
        return archive?.includes(text) === true
          ? undefined
          : "the engine sees different content there";
      });
    });
  } catch (error) {
    // An engine that refuses the mount does not see the directory; an unreachable one gives no
    // answer.
    if (error instanceof SandboxError && REFUSALS.has(error.code)) return error.message;
    if (error instanceof Error && "syscall" in error) return error.message;
    throw error;
  }
}
