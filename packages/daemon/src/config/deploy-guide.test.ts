/** The examples in the deployment guide are complete: they parse, their parts fit together, and the daemon accepts their settings. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { codeBlocks } from "../../../../tests/support/markdown.ts";
import { loadConfig } from "./load-config.ts";

const ROOT = join(import.meta.dirname, "../../../..");
const read = async (path: string): Promise<string> => await readFile(join(ROOT, path), "utf8");
const guide = await read("docs/guides/deploy.md");

interface Named {
  readonly name: string;
}

interface Container extends Named {
  readonly restartPolicy?: string;
  readonly args?: readonly string[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly env?: readonly (Named & { readonly value?: string })[];
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly volumeMounts: readonly Named[];
}

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Named & { readonly namespace?: string };
  readonly [more: string]: unknown;
}

interface PodSet extends Manifest {
  readonly spec: {
    readonly replicas: number;
    readonly serviceName: string;
    readonly selector: { readonly matchLabels: object };
    readonly template: {
      readonly metadata: { readonly labels: object };
      readonly spec: {
        readonly securityContext: { readonly supplementalGroups: readonly number[] };
        readonly initContainers: readonly Container[];
        readonly containers: readonly Container[];
        readonly volumes: readonly Named[];
      };
    };
    readonly volumeClaimTemplates: readonly { readonly metadata: Named }[];
  };
}

/** Throws for a variable that the daemon does not know, and for a value that it does not accept. */
async function accepted(env: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const key = { SANDKASTEN_API_KEY: "sk-sandbox-of-a-test" };
  const image = await imageVariables();
  const config = await loadConfig({
    env: { ...image, ...key, ...env },
    cwd: "/",
    home: "/nonexistent",
    isRoot: false,
  });
  return config.warnings;
}

/** The settings of the daemon's image. */
async function imageVariables(): Promise<Readonly<Record<string, string>>> {
  return variablesIn(await read("images/daemon/Dockerfile"));
}

function variablesIn(dockerfile: string): Readonly<Record<string, string>> {
  const found = [...dockerfile.matchAll(/(SANDKASTEN_\w+)=(\S+)/g)];
  return Object.fromEntries(found.map(([, name = "", value = ""]) => [name, value]));
}

function kubernetes(): readonly Manifest[] {
  const [block] = codeBlocks(guide, "yaml").filter(({ text }) => text.startsWith("apiVersion"));
  const documents = parseAllDocuments(block?.text ?? "", { strict: true, uniqueKeys: true });
  expect(documents.flatMap(({ errors, warnings }) => [...errors, ...warnings])).toEqual([]);
  return documents.map((document) => document.toJS() as Manifest);
}

function podSet(): PodSet["spec"] {
  return kubernetes().find(({ kind }) => kind === "StatefulSet")?.["spec"] as PodSet["spec"];
}

describe("the manifest for Kubernetes", () => {
  test("has all required parts, in one namespace", () => {
    const manifests = kubernetes();
    expect(manifests.map(({ apiVersion, kind }) => `${apiVersion} ${kind}`)).toEqual([
      "v1 Namespace",
      "v1 Secret",
      "apps/v1 StatefulSet",
      "v1 Service",
      "networking.k8s.io/v1 NetworkPolicy",
    ]);
    for (const { kind, metadata } of manifests)
      expect(kind === "Namespace" ? metadata.name : metadata.namespace).toBe("sandkasten");
  });

  test("selects its one pod by the labels of the pod", () => {
    const { replicas, selector, template, serviceName } = podSet();
    const { labels } = template.metadata;
    expect(replicas).toBe(1);
    expect(selector.matchLabels).toEqual(labels);
    const [, , , service, policy] = kubernetes();
    expect(service).toMatchObject({ metadata: { name: serviceName }, spec: { selector: labels } });
    expect(policy).toMatchObject({ spec: { podSelector: { matchLabels: labels } } });
  });

  test("mounts no volume that it does not declare", () => {
    const { template, volumeClaimTemplates } = podSet();
    const { initContainers, containers, volumes } = template.spec;
    const declared = [...volumes, ...volumeClaimTemplates.map(({ metadata }) => metadata)];
    const mounted = [...initContainers, ...containers].flatMap(({ volumeMounts }) => volumeMounts);
    expect(new Set(mounted.map(({ name }) => name))).toEqual(
      new Set(declared.map(({ name }) => name)),
    );
  });

  test("gives privileges only to the engine, and its socket's group to the daemon", () => {
    const { securityContext, initContainers, containers } = podSet().template.spec;
    const all = [...initContainers, ...containers];
    expect(all.filter((one) => one.securityContext["privileged"] === true)).toEqual([
      expect.objectContaining({ name: "engine", restartPolicy: "Always" }),
    ]);
    const engine = initContainers.find(({ name }) => name === "engine");
    expect(engine?.args).toContain(`--group=${securityContext.supplementalGroups.join()}`);
    expect(containers.map((one) => one.securityContext)).toEqual([
      {
        runAsNonRoot: true,
        runAsUser: 10_000,
        runAsGroup: 10_000,
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      },
    ]);
  });

  test("starts the engine as compose.dind.yaml does, and configures the daemon for it", async () => {
    const { services } = parse(await read("compose.dind.yaml")) as {
      readonly services: Readonly<
        Record<
          string,
          { readonly command: unknown; readonly environment: Readonly<Record<string, string>> }
        >
      >;
    };
    const { initContainers, containers } = podSet().template.spec;
    expect(initContainers.find(({ name }) => name === "engine")?.args).toEqual(
      services["engine"]?.command,
    );
    const { env = [], ports } = containers[0]!;
    const settings = Object.fromEntries(env.map(({ name, value }) => [name, value]));
    expect(settings["SANDKASTEN_DOCKER_HOST"]).toBe(
      services["sandkasten"]?.environment["SANDKASTEN_DOCKER_HOST"],
    );
    expect(ports).toEqual([{ name: "http", containerPort: 8080 }]);
    const plain = env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]]));
    expect(await accepted(Object.fromEntries(plain) as Record<string, string>)).toEqual([]);
  });
});

interface EcsTask {
  readonly volumes: readonly Named[];
  readonly containerDefinitions: readonly {
    readonly mountPoints: readonly { readonly sourceVolume: string }[];
    readonly environment: readonly { readonly name: string; readonly value: string }[];
    readonly secrets: readonly Named[];
  }[];
}

test("the task for ECS mounts what it declares, has the privileges of compose.yaml, and settings that the daemon accepts", async () => {
  const [block] = codeBlocks(guide, "json");
  const task = JSON.parse(block?.text ?? "") as EcsTask;
  const [container] = task.containerDefinitions;
  expect(container?.mountPoints.map(({ sourceVolume }) => sourceVolume)).toEqual(
    task.volumes.map(({ name }) => name),
  );
  // As in compose.yaml: root with two capabilities.
  const { services } = parse(await read("compose.yaml")) as {
    readonly services: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  };
  const { user, cap_drop: drop, cap_add: add } = services["sandkasten"]!;
  expect(container).toMatchObject({
    user,
    readonlyRootFilesystem: true,
    linuxParameters: { capabilities: { drop, add } },
  });
  expect(container).not.toHaveProperty("privileged");
  const settings = container?.environment.map(({ name, value }) => [name, value]) ?? [];
  expect(await accepted(Object.fromEntries(settings) as Record<string, string>)).toEqual([]);
  expect(container?.secrets.map(({ name }) => name)).toEqual(["SANDKASTEN_API_KEY"]);
});

test("settings in the compose files, the guide's files and images are the daemon's", async () => {
  for (const file of ["compose.yaml", "compose.dind.yaml"]) {
    const { services } = parse(await read(file)) as {
      readonly services: {
        readonly sandkasten: { readonly environment: Readonly<Record<string, string>> };
      };
    };
    const { SANDKASTEN_API_KEY: key, ...settings } = services.sandkasten.environment;
    expect(key).toMatch(/^\$\{SANDKASTEN_API_KEY:\?/);
    expect(await accepted(settings)).toEqual([]);
  }
  const [remote] = codeBlocks(guide, "yaml").filter(({ text }) => text.startsWith("backend"));
  const { docker } = parse(remote?.text ?? "") as {
    readonly docker: Readonly<Record<string, string>>;
  };
  const settings = Object.entries(docker).map(([name, value]) => [
    `SANDKASTEN_DOCKER_${name.toUpperCase()}`,
    value,
  ]);
  expect(settings.length).toBe(2);
  expect(await accepted(Object.fromEntries(settings) as Record<string, string>)).toEqual([]);
  for (const { text } of codeBlocks(guide, "dockerfile")) {
    const settings = variablesIn(text);
    expect(Object.keys(settings)).not.toEqual([]);
    expect(await accepted(settings)).toEqual([]);
  }
});
