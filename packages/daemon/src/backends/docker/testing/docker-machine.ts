/** Real containers for tests: a separate instance on an engine, cleaned up after the test. */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  DOCKER_IMAGES,
  dockerUnderTest,
} from "../../../../../../tests/support/docker-under-test.ts";
import type { SandboxHandle, SandboxSpec } from "../../../ports/backend.ts";
import { openDockerBackend } from "../docker-backend.ts";
import type { DockerBackend, DockerBackendOptions } from "../docker-backend.ts";
import { DockerImageStore } from "../docker-image-store.ts";

const RUNNER = join(import.meta.dirname, "../../../../../../native/bin/runner");
const MIB = 2 ** 20;

export const TEST_LIMITS = {
  memoryBytes: 256 * MIB,
  cpuMillicores: 1000,
  pids: 128,
  diskBytes: 256 * MIB,
  diskInodes: 65_536,
};

type Changes = Partial<Omit<DockerBackendOptions, "workspace">> & {
  /** The engine's address; the run's engine when absent. */
  readonly host?: string;
  readonly workspace?: Partial<DockerBackendOptions["workspace"]>;
};

export class DockerMachine implements AsyncDisposable {
  readonly directory: string;
  readonly options: DockerBackendOptions;
  readonly backend: DockerBackend;

  private constructor(directory: string, options: DockerBackendOptions, backend: DockerBackend) {
    this.directory = directory;
    this.options = options;
    this.backend = backend;
  }

  /** With a volume for each workspace by default. */
  static async start({ host, workspace, ...changes }: Changes = {}): Promise<DockerMachine> {
    const directory = await mkdtemp(join(tmpdir(), "sandkasten-test-"));
    const connection = changes.connection ?? { host: host ?? dockerUnderTest() };
    const options: DockerBackendOptions = {
      connection,
      instance: randomBytes(6).toString("hex"),
      runner: RUNNER,
      images: new DockerImageStore({
        connection,
        policy: { allowedImages: [] },
        pullPolicy: "never",
        dockerConfigDir: join(directory, "docker"),
      }),
      ...changes,
      workspace: {
        strategy: "volume",
        dir: join(directory, "workspaces"),
        sharedVolume: "no-such-volume",
        sharedDir: join(directory, "shared"),
        ...workspace,
      },
    };
    return new DockerMachine(directory, options, await openDockerBackend(options));
  }

  /** A second backend on the same engine, as a restarted daemon has it. */
  async reopen(): Promise<DockerBackend> {
    return await openDockerBackend(this.options);
  }

  spec(changes: Partial<SandboxSpec> = {}): SandboxSpec {
    return {
      id: `sbx_${randomBytes(8).toString("hex")}`,
      image: DOCKER_IMAGES.busybox,
      limits: TEST_LIMITS,
      profile: "restricted",
      env: {},
      ...changes,
    };
  }

  async create(changes: Partial<SandboxSpec> = {}): Promise<SandboxHandle> {
    return await this.backend.create(this.spec(changes));
  }

  /** Destroys everything left and removes the directory. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const { id } of await this.backend.list()) await this.backend.destroy(id);
    for (const { id } of await this.backend.listWorkspaces())
      await this.backend.destroyWorkspace(id);
    await rm(this.directory, { recursive: true, force: true });
  }
}
