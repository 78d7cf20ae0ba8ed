/** The images of one Docker engine, through its API. */
import { Readable } from "node:stream";
import type Docker from "dockerode";
import type { ImageReference } from "../../../images/reference.ts";
import { EngineClient } from "../engine-client.ts";
import type { DockerConnection } from "../engine-connection.ts";
import { engineFailure, engineRefusal, engineUnreachable } from "../engine-errors.ts";
import { EngineWorkFailed, readEvents } from "./engine-events.ts";
import type { EngineEvent } from "./engine-events.ts";
import { engineRepository, readEngineName } from "./image-names.ts";
import type { RegistryCredentials } from "../../../images/registry-credentials.ts";

/** An image with one id. */
export interface EngineImage {
  /** `sha256:…`: the engine's id for the content, which its containers report. */
  readonly id: string;
  /** Its names `repository:tag`. */
  readonly tags: readonly ImageReference[];
  /** Its names `repository@sha256:…`, from pulls or pushes. */
  readonly digests: readonly ImageReference[];
  readonly labels: Readonly<Record<string, string>>;
  readonly sizeBytes: number;
}

export interface EngineImageDetails extends EngineImage {
  /** `NAME=value`, as in the image. */
  readonly env: readonly string[];
  /** When it got its name here, or else when it was created. */
  readonly createdAtMs: number;
}

export interface PullOptions {
  readonly credentials: RegistryCredentials | undefined;
  readonly signal: AbortSignal;
  /** Throws to abort the pull. */
  readonly onEvent: (event: EngineEvent) => void;
}

/** Marks imported root file systems; images cannot be marked. */
export const SOURCE_LABEL = "sandkasten.source";

export class EngineImages {
  readonly #client: EngineClient;

  constructor(connection: DockerConnection) {
    this.#client = new EngineClient(connection);
  }

  /** The image with a name that begins with a registry, or with an id. */
  async find(name: string): Promise<EngineImageDetails | undefined> {
    const found = await this.#client.call(
      "inspecting an image",
      async (docker): Promise<Inspected> => (await docker.getImage(name).inspect()) as Inspected,
      { refused: ({ status }) => (status === 404 ? "absent" : undefined) },
    );
    if (found === "absent") return undefined;
    const { Id, RepoTags, RepoDigests, Config, Size, Created, Metadata } = found;
    return {
      id: Id,
      ...namesOf(RepoTags, RepoDigests),
      labels: Config?.Labels ?? {},
      sizeBytes: Size,
      env: Config?.Env ?? [],
      createdAtMs: timeOf(Metadata?.LastTagTime) || timeOf(Created),
    };
  }

  /** All images, or those without a tag. */
  async list(which: "all" | "untagged"): Promise<EngineImage[]> {
    const filters = which === "all" ? {} : { filters: { dangling: ["true"] } };
    const found = await this.#client.call("listing images", (docker) => docker.listImages(filters));
    return found.map(({ Id, RepoTags, RepoDigests, Labels, Size }) => ({
      id: Id,
      ...namesOf(RepoTags, RepoDigests),
      labels: (Labels as typeof Labels | null) ?? {},
      sizeBytes: Size,
    }));
  }

  /** Gives an image another name. */
  async tag(name: string, reference: ImageReference): Promise<"done" | "absent"> {
    return await this.#client.call(
      "naming an image",
      async (docker) => {
        const { tag = "latest" } = reference;
        await docker.getImage(name).tag({ repo: engineRepository(reference), tag });
        return "done" as const;
      },
      { refused: ({ status }) => (status === 404 ? "absent" : undefined) },
    );
  }

  /** Removes a name, and with the last name the image. An image in use by a container stays. */
  async remove(nameOrId: string): Promise<"removed" | "absent" | "in use"> {
    return await this.#client.call(
      "removing an image",
      async (docker) => {
        await docker.getImage(nameOrId).remove();
        return "removed" as const;
      },
      {
        refused: ({ status }) =>
          status === 404 ? "absent" : status === 409 ? "in use" : undefined,
      },
    );
  }

  /** Rejects with EngineWorkFailed if the engine reports a failure. */
  async pull(
    reference: ImageReference,
    { credentials, signal, onEvent }: PullOptions,
  ): Promise<void> {
    const doing = "pulling an image";
    const open = async (docker: Docker, abortSignal: AbortSignal): Promise<Answer> =>
      await docker.createImage(credentials, {
        fromImage: engineRepository(reference),
        tag: reference.digest ?? reference.tag,
        abortSignal,
      });
    let isDone = false;
    for await (const event of this.#follow(doing, open, signal)) {
      isDone ||= event.status.startsWith("Status: ");
      onEvent(event);
    }
    if (!isDone) throw engineUnreachable(doing, brokenOff());
  }

  /** Creates an image from a root file system. Rejects with EngineWorkFailed if the engine cannot. */
  async importRootfs(
    reference: ImageReference,
    tarball: AsyncGenerator<Buffer>,
    signal: AbortSignal,
  ): Promise<void> {
    const changes = `LABEL ${SOURCE_LABEL}=rootfs`;
    await this.#upload(
      "importing an image",
      tarball,
      (docker, body, abortSignal) =>
        docker.importImage(body, {
          repo: engineRepository(reference),
          tag: reference.tag,
          changes,
          abortSignal,
        }),
      ({ status }) => status.startsWith("sha256:"),
      signal,
    );
  }

  /** Loads an archive in the format of `docker save`. Rejects with EngineWorkFailed if the engine cannot. */
  async load(archive: AsyncGenerator<Buffer>, signal: AbortSignal): Promise<void> {
    await this.#upload(
      "loading an image",
      archive,
      (docker, body, abortSignal) => docker.loadImage(body, { abortSignal }),
      ({ status }) => status.startsWith("Loaded image"),
      signal,
    );
  }

  async #upload(
    doing: string,
    content: AsyncGenerator<Buffer>,
    send: (docker: Docker, body: Readable, signal: AbortSignal) => Promise<Answer>,
    isLast: (event: EngineEvent) => boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const body = Readable.from(content, { objectMode: false });
    let isDone = false;
    try {
      const open = async (docker: Docker, abortSignal: AbortSignal): Promise<Answer> =>
        await send(docker, body, abortSignal);
      for await (const event of this.#follow(doing, open, signal)) isDone ||= isLast(event);
      if (!isDone) throw engineUnreachable(doing, brokenOff());
    } catch (error) {
      // A read error is the reason that the engine got no more data.
      throw body.errored ?? error;
    } finally {
      body.destroy();
    }
  }

  /** Yields the engine's events during a long operation. */
  async *#follow(
    doing: string,
    open: (docker: Docker, signal: AbortSignal) => Promise<Answer>,
    signal: AbortSignal,
  ): AsyncGenerator<EngineEvent> {
    // An engine continues a pull as long as the connection is open.
    const left = new AbortController();
    try {
      const answer = await open(
        await this.#client.patient(),
        AbortSignal.any([signal, left.signal]),
      );
      yield* readEvents(answer as AsyncIterable<Buffer>, doing);
    } catch (error) {
      const refusal = engineRefusal(error);
      if (refusal !== undefined) throw new EngineWorkFailed(refusal.message);
      throw error instanceof EngineWorkFailed ? error : engineFailure(error, doing);
    } finally {
      left.abort();
    }
  }
}

type Answer = NodeJS.ReadableStream;

/** What engines really send: fields may be missing that the library promises. */
interface Inspected {
  readonly Id: string;
  readonly RepoTags?: readonly string[] | null;
  readonly RepoDigests?: readonly string[] | null;
  readonly Config?: {
    readonly Env?: readonly string[] | null;
    readonly Labels?: Readonly<Record<string, string>> | null;
  } | null;
  readonly Size: number;
  readonly Created?: string;
  readonly Metadata?: { readonly LastTagTime?: string };
}

function namesOf(
  tags: readonly string[] | null | undefined,
  digests: readonly string[] | null | undefined,
): Pick<EngineImage, "tags" | "digests"> {
  const read = (names: readonly string[] | null | undefined): ImageReference[] =>
    (names ?? []).map(readEngineName).filter((reference) => reference !== undefined);
  return { tags: read(tags), digests: read(digests) };
}

/** 0 for placeholder times before the epoch, as written by reproducible builds and engines. */
function timeOf(text: string | undefined): number {
  return Math.max(0, Date.parse(text ?? "") || 0);
}

function brokenOff(): Error {
  return new Error("the response ended before the work was done");
}
