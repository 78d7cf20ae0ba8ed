import { describe, expect, test } from "vitest";
import type { SandboxSpec } from "../../ports/backend.ts";
import { mountOf, sandboxSettings } from "./container-settings.ts";

const MIB = 2 ** 20;

function settings(spec: Partial<SandboxSpec> = {}): ReturnType<typeof sandboxSettings> {
  return sandboxSettings({
    spec: {
      id: "sbx_one",
      image: "busybox",
      limits: {
        memoryBytes: 128 * MIB,
        cpuMillicores: 500,
        pids: 64,
        diskBytes: 64 * MIB,
        diskInodes: 4096,
      },
      profile: "restricted",
      env: { MINE: "yes" },
      ...spec,
    },
    imageId: "sha256:abc",
    imageEnv: { PATH: "/image" },
    facts: { architecture: "x64", cgroupVersion: "1", processors: 2 },
    labels: { label: "on the container" },
    ownLabels: { label: "on its own volumes" },
    mountVarTmp: true,
    runnerVolume: "the-runner",
    workspace: { kind: "volume", name: "the-workspace" },
    workspaces: [],
    copiedDirectories: [],
    network: "the-network",
  });
}

describe("a container", () => {
  test("is named by its ids, and takes only variables from the image", () => {
    expect(settings()).toMatchObject({
      name: "sbx_one",
      Image: "sha256:abc",
      Entrypoint: ["/.sandkasten/runner"],
      User: "0:0",
      WorkingDir: "/",
      Tty: false,
      OpenStdin: true,
      Healthcheck: { Test: ["NONE"] },
      Labels: { label: "on the container" },
    });
    expect(settings().Env).toEqual(
      expect.arrayContaining(["PATH=/image", "MINE=yes", "USER=sandbox"]),
    );
    expect(settings().Cmd?.join(" ")).toBe(
      "init --user 1000:1000 --own /workspace --own /home/sandbox --own /var/tmp --workdir /workspace",
    );
    expect(settings({ profile: "root" }).Cmd?.join(" ")).toBe(
      "init --user 0:0 --allow-user --workdir /workspace",
    );
  });

  test("has the least privileges, and no network", () => {
    expect(settings().HostConfig).toMatchObject({
      ReadonlyRootfs: true,
      Privileged: false,
      CapDrop: ["ALL"],
      CapAdd: ["CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_CHOWN"],
      NetworkMode: "none",
      IpcMode: "none",
      PidMode: "",
      AutoRemove: false,
      Init: false,
      LogConfig: { Type: "none" },
    });
    const [noNewPrivileges, seccomp = ""] = (settings().HostConfig ?? {}).SecurityOpt as string[];
    expect(noNewPrivileges).toBe("no-new-privileges");
    const { defaultAction, syscalls } = JSON.parse(seccomp.replace("seccomp=", "")) as {
      readonly defaultAction: string;
      readonly syscalls: readonly { readonly names: string[]; readonly errnoRet?: number }[];
    };
    expect(defaultAction).toBe("SCMP_ACT_ERRNO");
    // Older engines return EPERM by default, which ends programs that would work without clone3.
    expect(syscalls.find(({ names }) => names.includes("clone3"))?.errnoRet).toBe(38);
    expect(settings({ profile: "root" }).HostConfig?.ReadonlyRootfs).toBe(false);
  });

  test("has the configured network and its name servers only on request", () => {
    const { NetworkMode, Dns } = settings().HostConfig ?? {};
    expect([NetworkMode, Dns]).toEqual(["none", ["127.0.0.1"]]);
    const { HostConfig = {} } = settings({ network: "full" });
    expect([HostConfig.NetworkMode, HostConfig.Dns]).toEqual(["the-network", undefined]);
  });

  test("has its limits, and no more processors than the machine", () => {
    expect(settings().HostConfig).toMatchObject({
      Memory: 128 * MIB,
      MemorySwap: 128 * MIB,
      NanoCpus: 500_000_000,
      PidsLimit: 64,
    });
    const { limits } = { limits: { memoryBytes: 128 * MIB, cpuMillicores: 64_000, pids: 64 } };
    const spec = { limits: { ...limits, diskBytes: 64 * MIB, diskInodes: 4096 } };
    expect(settings(spec).HostConfig?.NanoCpus).toBe(2_000_000_000);
    const { Tmpfs = {} } = settings().HostConfig ?? {};
    for (const options of Object.values(Tmpfs))
      expect(options).toMatch(/nosuid,nodev,size=\d+,nr_inodes=\d+/u);
    expect(Object.keys(Tmpfs)).toEqual(["/tmp", "/run", "/dev/shm"]);
  });

  test("has the workspace at both paths, a home that is removed with it, and a read-only runner", () => {
    const mounts = settings().HostConfig?.Mounts ?? [];
    expect(
      mounts.map(({ Target, Source, ReadOnly }) => [Target, Source, ReadOnly ?? false]),
    ).toEqual([
      ["/.sandkasten", "the-runner", true],
      ["/workspace", "the-workspace", false],
      ["/work", "the-workspace", false],
      ["/home/sandbox", "", false],
      ["/var/tmp", "", false],
    ]);
    expect(mounts.every(({ VolumeOptions }) => VolumeOptions?.NoCopy === true)).toBe(true);
    for (const { VolumeOptions } of mounts.slice(3))
      expect(VolumeOptions?.Labels).toEqual({ label: "on its own volumes" });
    const asRoot = settings({ profile: "root" }).HostConfig?.Mounts ?? [];
    expect(asRoot.map(({ Target }) => Target)).not.toContain("/var/tmp");
  });

  test("hides the engine's /sys and everything else that other sandboxes hide", () => {
    expect(settings().HostConfig?.MaskedPaths).toEqual(
      expect.arrayContaining(["/sys", "/dev/mqueue", "/proc/keys", "/proc/kallsyms"]),
    );
    expect(settings().HostConfig?.ReadonlyPaths).toContain("/proc/sys");
  });
});

test("mounts a part of a volume separately, and a directory by its path", () => {
  expect(mountOf({ kind: "volume", name: "v", subpath: "sbx_one" }, "/workspace")).toMatchObject({
    Type: "volume",
    Source: "v",
    VolumeOptions: { Subpath: "sbx_one" },
  });
  expect(mountOf({ kind: "directory", path: "/data/sbx_one" }, "/workspace")).toEqual({
    Type: "bind",
    Source: "/data/sbx_one",
    Target: "/workspace",
  });
});
