/** A Docker engine without images, a registry, and stores on both. */
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Docker from "dockerode";
import { DockerEngine } from "../../../../../../../tests/support/docker-engine.ts";
import type { ImagePolicy } from "../../../../images/local-image-store.ts";
import { startRegistry } from "../../../../images/testing/registry.ts";
import type { Registry } from "../../../../images/testing/registry.ts";
import { file, tarOf } from "../../../../images/testing/tar-writer.ts";
import { DockerImageStore } from "../../docker-image-store.ts";
import type { DockerImageStoreOptions, PullPolicy } from "../../docker-image-store.ts";
import { pushImage } from "./push-image.ts";
import type { PushOptions } from "./push-image.ts";

export interface StoreSettings extends Partial<Omit<DockerImageStoreOptions, "policy">> {
  readonly policy?: Partial<ImagePolicy>;
}

export class ImageEngine implements AsyncDisposable {
  readonly engine: DockerEngine;
  /** The engine itself, for inspection without our store. */
  readonly docker: Docker;
  readonly registry: Registry;
  readonly directory: string;
  /** Initially without credentials. */
  readonly dockerConfigDir: string;
  #archives = 0;

  private constructor(engine: DockerEngine, registry: Registry, directory: string) {
    this.engine = engine;
    this.docker = new Docker({ socketPath: engine.host.replace("unix://", "") });
    this.registry = registry;
    this.directory = directory;
    this.dockerConfigDir = join(directory, ".docker");
  }

  static async start(): Promise<ImageEngine> {
    const directory = await mkdtemp(join(tmpdir(), "sandkasten-images-"));
    await mkdir(join(directory, ".docker"));
    const [engine, registry] = await Promise.all([
      // The engine does not retry a failed download, which would take a minute.
      DockerEngine.start(join(directory, "e"), { args: ["--max-download-attempts=1"] }),
      startRegistry(),
    ]);
    return new ImageEngine(engine, registry, directory);
  }

  store(pullPolicy: PullPolicy, { policy, ...settings }: StoreSettings = {}): DockerImageStore {
    return new DockerImageStore({
      connection: { host: this.engine.host },
      policy: { allowedImages: [], registries: ["*"], ...policy },
      pullPolicy,
      dockerConfigDir: this.dockerConfigDir,
      temporaryDir: this.directory,
      ...settings,
    });
  }

  /** Pushes an image with one small file, and optionally a large one, to this registry or another. */
  async push(
    name: string,
    content: string,
    options: PushOptions & { readonly registry?: string; readonly largeBytes?: number } = {},
  ): Promise<{ readonly digest: string; readonly id: string }> {
    const layers = [tarOf([file("content", content)])];
    const { largeBytes = 0, registry = this.registry.address } = options;
    if (largeBytes > 0) layers.push(tarOf([file("large", randomBytes(largeBytes))]));
    return await pushImage(registry, name, layers, options);
  }

  /** Writes an archive and returns its path. */
  async archive(content: Buffer): Promise<string> {
    const path = join(this.directory, `archive-${(this.#archives += 1)}`);
    await writeFile(path, content);
    return path;
  }

  /** Gives the engine an image that is in no registry, bypassing our store; returns its id. */
  async importImage(name: string, content: string, changes = ""): Promise<string> {
    const tarball = await this.archive(tarOf([file("content", content)]));
    const [repo, tag] = name.split(":");
    const options = { repo, tag, ...(changes !== "" && { changes }) };
    const answer = await this.docker.importImage(tarball, options);
    for await (const _ of answer);
    return await this.idOf(name);
  }

  /** Rejects if the engine does not have it. */
  async idOf(name: string): Promise<string> {
    return (await this.docker.getImage(name).inspect()).Id;
  }

  /** Creates a container without starting it, which keeps its image from being removed. */
  async createContainer(image: string): Promise<AsyncDisposable> {
    const container = await this.docker.createContainer({ Image: image, Cmd: ["true"] });
    return { [Symbol.asyncDispose]: async () => void (await container.remove()) };
  }

  /** Removes all images from the engine. */
  async clear(): Promise<void> {
    for (const { Id } of await this.docker.listImages())
      await this.docker.getImage(Id).remove({ force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine[Symbol.asyncDispose]();
    await this.registry[Symbol.asyncDispose]();
    await rm(this.directory, { recursive: true, force: true });
  }
}
