/** Snapshots of the OpenAI Agents SDK: in a store of the caller, or on the daemon. */
import {
  isNoopSnapshotSpec,
  type RemoteSnapshotSpec,
  type Snapshot,
  type SnapshotSpec,
  SandboxSnapshotError,
  SandboxUnsupportedFeatureError,
} from "@openai/agents-core/sandbox";
import type { CreateSessionOptions, SandboxClient, Session } from "@sandkasten/sdk";

/**
 * Snapshots on the daemon: of the workspace and the home directory or, with the profile `root`, of
 * everything.
 */
export interface SandkastenSnapshotSpec extends SnapshotSpec {
  readonly type: "sandkasten";
  /** Random by default. An existing snapshot is replaced. */
  readonly id?: string;
}

export type KnownSnapshotSpec = RemoteSnapshotSpec | SandkastenSnapshotSpec;

/** Undefined for none. */
export function knownSpec(spec: SnapshotSpec | undefined): KnownSnapshotSpec | undefined {
  if (spec === undefined || isNoopSnapshotSpec(spec)) return undefined;
  if (spec.type === "sandkasten") return spec as SandkastenSnapshotSpec;
  if (spec.type === "remote" && "store" in spec) return spec as RemoteSnapshotSpec;
  throw new SandboxUnsupportedFeatureError(
    `Sandkasten keeps no snapshots of the type ${spec.type}. Use { type: "sandkasten" }, or { type: "remote", store }.`,
  );
}

/** Replaces the previous snapshot. */
export async function takeSnapshot(
  client: SandboxClient,
  session: Session,
  spec: KnownSnapshotSpec,
  { root, before }: { readonly root: string; readonly before: Snapshot | null | undefined },
): Promise<Snapshot> {
  const { type } = spec;
  const id = spec.id ?? before?.id;
  if (spec.type === "sandkasten")
    return { type, id: (await client.snapshots.create(session, { id })).id };
  const data = await archiveOf(session, root);
  const { metadata } = spec;
  const saved = await spec.store.save({
    data,
    ...(id !== undefined && { id }),
    ...(metadata !== undefined && { metadata }),
  });
  return { type, ...saved };
}

/** A new session with the files of a snapshot. */
export async function restoreSnapshot(
  client: SandboxClient,
  snapshot: Snapshot,
  options: CreateSessionOptions,
  { root, spec }: { readonly root: string; readonly spec: KnownSnapshotSpec | undefined },
): Promise<Session> {
  const { id, type } = snapshot;
  if (type === "sandkasten")
    return await client.snapshots.restore(id, { ...options, image: undefined });
  if (spec?.type !== "remote")
    throw new SandboxSnapshotError(
      `The snapshot ${id} is in a store that this client does not have. Pass the store in the client's option snapshot.`,
      {},
      "snapshot_not_restorable",
    );
  const { data } = await spec.store.load({ id });
  const session = await client.createSession(options);
  try {
    await session.files.untar(root, data);
  } catch (error) {
    await session.destroy();
    throw error;
  }
  return session;
}

/** All files below a directory, as a tar archive. */
export async function archiveOf(session: Session, directory: string): Promise<Uint8Array> {
  const archive = await session.files.tar(directory);
  return new Uint8Array(await new Response(archive).arrayBuffer());
}
