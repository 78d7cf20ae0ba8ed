import { describe, expect, test } from "vitest";
import { buildOciConfig, type OciConfigOptions } from "./build-oci-config.ts";

const MIB = 1024 * 1024;

function build(options: Partial<OciConfigOptions> = {}): ReturnType<typeof buildOciConfig> {
  return buildOciConfig({
    profile: "restricted",
    memoryBytes: 512 * MIB,
    imageEnv: {},
    env: {},
    binds: [],
    architecture: "x64",
    cgroupNamespace: false,
    transport: "socket",
    maxOpenFiles: 20_000,
    ...options,
  });
}

describe("the process", () => {
  test("is the runner with its descriptors and the code user", () => {
    expect(build().process.args.join(" ")).toBe(
      "/.sandkasten/runner init --listen-fd 3 --cgroup-fd 4 --memory-fd 5 --score-fd 6 --user 1000:1000 --workdir /workspace",
    );
  });

  test("runs code as root in the root profile", () => {
    expect(build({ profile: "root" }).process.args.join(" ")).toContain(
      "--user 0:0 --allow-user --workdir",
    );
  });

  test("has three capabilities, and passes none of them on", () => {
    const { capabilities } = build().process;
    const three = ["CAP_SETUID", "CAP_SETGID", "CAP_KILL"];
    expect(capabilities).toEqual({
      bounding: three,
      permitted: three,
      effective: three,
      inheritable: [],
      ambient: [],
    });
  });

  test.each([
    "SYS_ADMIN",
    "SYS_PTRACE",
    "SYS_MODULE",
    "NET_ADMIN",
    "NET_RAW",
    "MKNOD",
    "SYS_CHROOT",
    "DAC_READ_SEARCH",
    "SYS_RESOURCE",
  ])("never has CAP_%s, not even in the root profile", (name) => {
    expect(build({ profile: "root" }).process.capabilities.bounding).not.toContain(`CAP_${name}`);
  });

  test.each(["restricted", "root"] as const)("has no_new_privs in the %s profile", (profile) => {
    expect(build({ profile }).process.noNewPrivileges).toBe(true);
  });

  test("never requests more open files than the daemon can have", () => {
    const limit = (maxOpenFiles: number): unknown =>
      build({ maxOpenFiles }).process.rlimits.find(({ type }) => type === "RLIMIT_NOFILE");
    expect(limit(20_000)).toMatchObject({ soft: 1024, hard: 4096 });
    expect(limit(2000)).toMatchObject({ soft: 1024, hard: 2000 });
    expect(limit(512)).toMatchObject({ soft: 512, hard: 512 });
    expect(() => limit(10)).toThrow(/ulimit -n/);
  });
});

describe("the root filesystem", () => {
  test("is read-only, except in the root profile", () => {
    expect(build().root.readonly).toBe(true);
    expect(build({ profile: "root" }).root.readonly).toBe(false);
  });

  test("mounts an image's directories read-only, with the mounts below them, before everything else", () => {
    const [first] = build({ binds: [{ from: "/usr", to: "/usr" }] }).mounts;
    expect(first).toMatchObject({ destination: "/usr", source: "/usr", type: "bind" });
    expect(first?.options).toEqual(
      expect.arrayContaining(["ro", "rro", "nosuid", "rnosuid", "nodev", "rnodev"]),
    );
  });

  test.each(["usr", "/usr/../etc", "/", "/usr/", "/a\0b", "", "/./usr"])(
    "refuses to mount %j",
    (path) => {
      expect(() => build({ binds: [{ from: path, to: "/usr" }] })).toThrow(/cannot mount/);
      expect(() => build({ binds: [{ from: "/usr", to: path }] })).toThrow(/cannot mount/);
    },
  );

  test("has a /proc that is read-only for code if code is not root and has the host's kernel", () => {
    const isReadOnly = (options: Partial<OciConfigOptions>): boolean =>
      build(options).linux.readonlyPaths.includes("/proc");
    expect(isReadOnly({})).toBe(true);
    expect(isReadOnly({ profile: "root" })).toBe(false);
    expect(isReadOnly({ transport: "relay" })).toBe(false);
  });

  test("has no /sys, no cgroup filesystem and no message queues", () => {
    const { mounts } = build();
    expect(mounts.map(({ destination }) => destination)).toEqual([
      "/proc",
      "/dev",
      "/dev/pts",
      "/dev/shm",
      "/tmp",
      "/run",
      "/.sandkasten/runner",
      "/workspace",
      "/home/sandbox",
      "/var/tmp",
    ]);
    expect(mounts.map(({ source }) => source).filter((source) => source.startsWith("@"))).toEqual([
      "@dev",
      "@runner",
      "@disk/workspace",
      "@disk/home",
      "@disk/tmp",
    ]);
  });
});

describe("the environment", () => {
  const env = (options: Partial<OciConfigOptions>): Record<string, string> =>
    Object.fromEntries(
      build(options).process.env.map(
        (entry) => entry.split(/=(.*)/s).slice(0, 2) as [string, string],
      ),
    );

  test("names the code user and a path", () => {
    expect(env({})).toEqual({
      PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      LANG: "C.UTF-8",
      HOME: "/home/sandbox",
      USER: "sandbox",
      LOGNAME: "sandbox",
    });
    expect(env({ profile: "root" })).toMatchObject({ HOME: "/root", USER: "root" });
  });

  test("prefers the caller's variables to the image's, and the image's to the defaults", () => {
    const merged = env({
      imageEnv: { PATH: "/image", A: "image", HOME: "/nowhere", "odd.name": "x" },
      env: { A: "caller", B: "x=y\nz" },
    });
    expect(merged).toMatchObject({
      PATH: "/image",
      A: "caller",
      B: "x=y\nz",
      HOME: "/home/sandbox",
      "odd.name": "x",
    });
  });

  test("contains nothing of the daemon's own environment", () => {
    process.env["SANDKASTEN_TEST_SECRET"] = "hunter2";
    try {
      expect(JSON.stringify(build())).not.toContain("hunter2");
    } finally {
      delete process.env["SANDKASTEN_TEST_SECRET"];
    }
  });

  test.each(["", "1A", "A-B", "A B", "A=B", "Ä", "A\0", "A\n"])("refuses the name %j", (name) => {
    expect(() => build({ env: { [name]: "x" } })).toThrow(/is not a valid name/);
  });

  test.each(["", "A=B", "A\0"])(
    "refuses the name %j from an image as the image's fault",
    (name) => {
      expect(() => build({ imageEnv: { [name]: "x" } })).toThrow(
        expect.objectContaining({ code: "INVALID_IMAGE" }),
      );
    },
  );

  test("refuses values that no environment can contain", () => {
    expect(() => build({ env: { A: "x\0y" } })).toThrow(
      expect.objectContaining({ code: "INVALID_REQUEST" }),
    );
    expect(() => build({ env: { A: "x".repeat(131_072) } })).toThrow(/longer than/);
    expect(() => build({ env: { A: 5 as unknown as string } })).toThrow(/is not text/);
    const many = Object.fromEntries(
      Array.from({ length: 6 }, (_, index) => [`A${index}`, "x".repeat(100_000)]),
    );
    expect(() => build({ env: many })).toThrow(/put large values into a file/);
  });

  test("does not repeat a variable's value in an error", () => {
    expect(() => build({ env: { TOKEN: "hunter2\0" } })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining("hunter2") }),
    );
  });
});

describe("storage in memory", () => {
  /** 64 KiB and 64 inodes, which the launcher creates. */
  const DEV_BYTES = 64 * 1024 + 64 * 1024;

  const option = (options: readonly string[], name: string): number =>
    Number(options.find((text) => text.startsWith(`${name}=`))?.slice(name.length + 1));

  test.each([16 * MIB, 64 * MIB, 512 * MIB, 512 * MIB + 12_345, 64 * 1024 * MIB])(
    "uses at most half of %d bytes, including inodes and System V segments",
    (memoryBytes) => {
      const { mounts, linux } = build({ memoryBytes });
      const tmpfs = mounts.filter(({ type }) => type === "tmpfs");
      const bytes = tmpfs.reduce(
        (sum, { options }) => sum + option(options, "size") + option(options, "nr_inodes") * 1024,
        0,
      );
      const sysv = Number(linux.sysctl["kernel.shmall"]) * 4096;
      expect(tmpfs).toHaveLength(3);
      expect(
        tmpfs.every(
          ({ options }) => option(options, "size") > 0 && option(options, "nr_inodes") > 0,
        ),
      ).toBe(true);
      expect(sysv).toBeGreaterThan(0);
      expect(bytes + sysv + DEV_BYTES).toBeLessThanOrEqual(memoryBytes / 2);
    },
  );

  test.each([0, -1, 1.5, Number.NaN, 15 * MIB])("refuses %d bytes of memory", (memoryBytes) => {
    expect(() => build({ memoryBytes })).toThrow(/bytes of memory; give it at least/);
  });
});

describe("namespaces", () => {
  test("are all except time, and cgroup where it hides nothing", () => {
    const types = (cgroupNamespace: boolean): string[] =>
      build({ cgroupNamespace }).linux.namespaces.map(({ type }) => type);
    expect(types(false).sort()).toEqual(["ipc", "mount", "network", "pid", "user", "uts"]);
    expect(types(true)).toContain("cgroup");
  });
});

test("buildOciConfig() refuses a processor without a seccomp profile", () => {
  expect(() => build({ architecture: "s390x" })).toThrow(
    expect.objectContaining({ code: "UNSUPPORTED" }),
  );
});
