import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { configKeys } from "./keys.ts";
import { makePlace } from "./testing/load-fixture.ts";

const KEY = "sk-sandbox-0123456789";

describe("loadConfig() without any configuration", () => {
  it("has the documented defaults in the units of the daemon", async () => {
    const { load } = await makePlace();
    const config = await load();
    expect(config).toMatchObject({
      listen: { host: "127.0.0.1", port: 8080 },
      apiKeys: [],
      dataDir: "/home/me/.local/share/sandkasten",
      dbPath: "/home/me/.local/share/sandkasten/sandkasten.db",
      backend: "auto",
      backends: [],
      docker: {
        host: "unix:///var/run/docker.sock",
        configDir: "/home/me/.docker",
        pullPolicy: "missing",
        workspace: { strategy: "auto", dir: "/tmp/station-sandboxes" },
      },
      runtime: "auto",
      sessionTtlMs: 1_800_000,
      maxSessionLifetimeMs: 14_400_000,
      defaults: {
        limits: {
          memoryBytes: 512 * 2 ** 20,
          cpuMillicores: 1000,
          pids: 256,
          diskBytes: 2 ** 30,
          diskInodes: 65_536,
        },
        maxExecTimeoutMs: 86_400_000,
        profile: "restricted",
        networkMode: "none",
      },
      maxLimits: { memoryBytes: 2 ** 34, cpuMillicores: 16_000, pids: 16_384 },
      allowRootProfile: true,
      pool: undefined,
      quotas: {
        maxSessions: 1000,
        maxRunningExecs: 256,
        maxWorkspaces: 1000,
        maxImageBytes: 20 * 2 ** 30,
      },
      shutdown: "keep",
      workspace: { diskBytes: 2 ** 30, diskInodes: 65_536 },
      journal: {
        maxBytesPerExec: 2 ** 28,
        maxBytesPerSession: 2 ** 30,
        maxBytesPerKey: 2 ** 33,
        maxBytes: 2 ** 35,
        retentionMs: 86_400_000,
      },
      http: { maxBodyBytes: 2 ** 23, maxUploadBytes: 10 * 2 ** 30 },
      outputBudgetBytes: 2 ** 20,
      logLevel: "info",
      warnings: [],
    });
    expect(config.images.allowedImages).toEqual([]);
  });

  it("keeps root's data in /var/lib and others' data in XDG_DATA_HOME", async () => {
    const { load } = await makePlace();
    const env = { XDG_DATA_HOME: "/data" };
    const place = await makePlace("log_level: warn\n");
    expect((await place.load({ isRoot: true, env })).dataDir).toBe("/var/lib/sandkasten");
    expect((await load({ env })).dataDir).toBe("/data/sandkasten");
    expect((await load({ env: { XDG_DATA_HOME: "relative" } })).dataDir).toBe(
      "/home/me/.local/share/sandkasten",
    );
  });

  it("is deeply frozen", async () => {
    const { load } = await makePlace("pool: [{ image: host, size: 1 }]\n");
    const config = await load();
    const thaw = (value: unknown): unknown[] =>
      typeof value !== "object" || value === null
        ? []
        : [...(Object.isFrozen(value) ? [] : [value]), ...Object.values(value).flatMap(thaw)];
    expect(thaw(config)).toEqual([]);
    expect(config.pool).toHaveLength(1);
  });
});

describe("loadConfig() with several sources", () => {
  it("prefers flags to variables, variables to the file, and the file to the defaults", async () => {
    const { load } = await makePlace(
      "log_level: debug\nsession_ttl_seconds: 60\noutput_budget_bytes: 1\n",
    );
    const config = await load({
      env: { SANDKASTEN_SESSION_TTL_SECONDS: "120", SANDKASTEN_OUTPUT_BUDGET_BYTES: "2" },
      flags: { "output-budget-bytes": "3" },
    });
    expect(config.logLevel).toBe("debug");
    expect(config.sessionTtlMs).toBe(120_000);
    expect(config.outputBudgetBytes).toBe(3);
    expect(config.shutdown).toBe("keep");
  });

  it("merges groups key by key, and replaces whole lists", async () => {
    const { load } = await makePlace(
      "defaults: { pids_limit: 100, mem_limit_mb: 100 }\nhttp: { allowed_hosts: [a, b] }\n",
    );
    const { defaults, http } = await load({
      env: { SANDKASTEN_DEFAULTS_MEM_LIMIT_MB: "200", SANDKASTEN_HTTP_ALLOWED_HOSTS: "c, d:80," },
    });
    expect(defaults.limits).toMatchObject({ pids: 100, memoryBytes: 200 * 2 ** 20 });
    expect(http.allowedHosts).toEqual(["c", "d:80"]);
  });

  it("reads every key from a variable and from a flag of its name", async () => {
    const { load } = await makePlace();
    const texts: Record<string, string> = {
      listen: "127.0.0.1:1",
      api_key: KEY,
      api_keys: "ci=abcdefgh=,me=ijklmnop",
      data_dir: "/d",
      db_path: "x.db",
      database_url: "postgresql://sk:hush@db.test/sk",
      "cluster.address": "http://10.0.0.1:8080",
      "cluster.secret": "shared-secret",
      "dashboard.agents_url": "http://127.0.0.1:8587",
      "dashboard.agents_api_key": "key-of-the-agents",
      default_image: "python",
      allowed_images: "python,ubuntu:*",
      backend: "oci",
      backends: "docker,oci",
      "docker.host": "tcp://engine.test:2376",
      "docker.cert_path": "/c",
      "docker.config_dir": "/e",
      "docker.pull_policy": "always",
      "docker.workspace": "shared-volume",
      "docker.workspace_dir": "/w",
      "docker.shared_volume": "shared",
      "docker.shared_dir": "/s",
      "docker.runtime": "runsc",
      runtime: "runc",
      runtime_dir: "/r",
      pool: "python=2",
      shutdown: "destroy",
      log_level: "error",
      "defaults.network_mode": "none",
      "images.registries": "docker.io,r.test",
      "images.insecure_registries": "r.test:5000",
      "images.credentials_file": "/f",
      "http.allowed_hosts": "h.test",
      "http.allowed_origins": "https://o.test",
      "preview.domain": "p.test:8443",
      "preview.scheme": "https",
      "preview.max_connections": "70",
      "jwt.issuer": "https://i.test/",
      "jwt.audience": "sandkasten",
      "jwt.jwks_file": "/keys.json",
      "jwt.jwks_uri": "https://i.test/keys",
      "jwt.public_key": "-----BEGIN PUBLIC KEY-----AAAA-----END PUBLIC KEY-----",
      "jwt.algorithms": "ES256",
      "jwt.owner_claim": "email",
      "jwt.scope_claim": "scope",
      "jwt.clock_skew_seconds": "70",
      "network.allow": "mine,*.b.test:443",
      "network.default": "mine",
      "network.presets": "mine=a.test",
      "network.max_connections": "70",
      "network.ca_file": "/c",
      "network.secrets":
        '[{"name":"a","value":"Bearer x","host":"a.test","header":"Authorization"}]',
      "network.name_servers": "127.0.0.1:5353,[::1]:53",
      "telemetry.endpoint": "http://collector.test:4318",
      "telemetry.headers": "authorization=Bearer%20x",
      "telemetry.protocol": "http/json",
      "telemetry.service_name": "sandboxes",
      "telemetry.sample_ratio": "0.5",
      "telemetry.metrics_listen": "127.0.0.1:9464",
    };
    const textOf = (name: string): string =>
      texts[name] ?? (/readonly|allow_|require_/.test(name) ? "true" : "70000");
    const fits = (name: string): string =>
      ({
        "defaults.cpu_limit": "2",
        "max_limits.cpu_limit": "3",
        "defaults.mem_limit_mb": "70",
        "defaults.pids_limit": "70",
        "defaults.disk_limit_mb": "70",
        "images.max_layers": "70",
        "images.max_unpacked_bytes": "2MiB",
        "images.max_archive_bytes": "2MiB",
        "images.max_file_bytes": "2MiB",
        "images.max_total_bytes": "2MiB",
        "quotas.max_image_bytes": "2MiB",
      })[name] ?? textOf(name);
    // Only one source of the issuer's keys is allowed at a time.
    const others = new Set(["jwt.jwks_uri", "jwt.public_key"]);
    const keys = configKeys().filter(({ name }) => !others.has(name));
    const byVariable = await load({
      env: Object.fromEntries(keys.map((key) => [key.variable, fits(key.name)])),
    });
    const byFlag = await load({
      flags: Object.fromEntries(keys.map((key) => [key.flag.slice(2), fits(key.name)])),
    });
    const sources = (config: typeof byFlag): unknown[] =>
      config.settings.filter(({ key }) => !others.has(key)).map(({ source }) => source.name);
    expect(sources(byVariable)).toEqual(keys.map(({ variable }) => variable));
    expect(sources(byFlag)).toEqual(keys.map(({ flag }) => flag));
    expect({ ...byFlag, settings: [] }).toEqual({ ...byVariable, settings: [] });
    expect(byVariable).toMatchObject({
      apiKeys: [
        { name: "default", key: KEY, maxSessions: 70_000 },
        { name: "ci", key: "abcdefgh=" },
        { name: "me", key: "ijklmnop" },
      ],
      dbPath: "/d/x.db",
      pool: [{ image: "python", size: 2, profile: "restricted" }],
      images: { limits: { totalBytes: 2 ** 21, layers: 70 } },
    });
  });

  it.each([
    ["jwt: { issuer: i }", "jwt.audience"],
    ["jwt: { audience: a, jwks_file: /k }", "jwt.issuer"],
    ["jwt: { issuer: i, audience: a }", "exactly one of"],
    ["jwt: { issuer: i, audience: a, jwks_file: /k, jwks_uri: 'https://i.test/k' }", "exactly one"],
    ["jwt: { issuer: i, audience: a, jwks_file: /k, algorithms: [] }", "algorithms is empty"],
    ["jwt: { issuer: i, audience: a, jwks_file: /k, algorithms: [HS256] }", "RS256"],
    ["jwt: { issuer: i, audience: a, jwks_file: /k, algorithms: [none] }", "RS256"],
    ["jwt: { issuer: i, audience: a, jwks_uri: 'http://i.test/k' }", "https://"],
    ["jwt: { issuer: i, audience: a, public_key: secret }", "PEM"],
    ["api_keys: [{ name: a, key: abcdefgh, admin: true, scope: read }]", "give one"],
  ])("refuses %s", async (text, said) => {
    const { load } = await makePlace(`${text}\n`);
    await expect(load()).rejects.toThrow(said);
  });

  it("resolves a relative data_dir against the file that sets it, and knows the home directory", async () => {
    const { load, directory } = await makePlace("data_dir: ./data\n");
    expect((await load({ file: "sandkasten.yaml" })).dataDir).toBe(join(directory, "data"));
    expect((await load({ env: { SANDKASTEN_DATA_DIR: "~/d" } })).dataDir).toBe("/home/me/d");
    expect((await load({ flags: { "data-dir": "x" }, cwd: directory })).dataDir).toBe(
      join(directory, "x"),
    );
    expect((await load({ flags: { "db-path": "/db/x.db" } })).dbPath).toBe("/db/x.db");
  });

  it("makes root the default profile if the root file system is writable", async () => {
    const { load } = await makePlace(
      "defaults: { readonly_rootfs: false }\npool: [{ image: host, size: 1 }]\n",
    );
    const config = await load();
    expect(config.defaults.profile).toBe("root");
    expect(config.pool?.[0]?.profile).toBe("root");
  });

  it("gives each key its own quotas, or the general ones", async () => {
    const { load } = await makePlace(
      `api_keys:\n  - { name: ci, key: ${KEY}, max_sessions: 2 }\nquotas: { max_running_execs: 7, max_workspaces: 9 }\n`,
    );
    expect((await load()).apiKeys).toEqual([
      {
        name: "ci",
        key: KEY,
        scope: "use",
        maxSessions: 2,
        maxRunningExecs: 7,
        maxWorkspaces: 9,
        maxImageBytes: 20 * 2 ** 30,
      },
    ]);
  });

  it("makes api_key an administrator, and others only if they say so", async () => {
    const { load } = await makePlace(
      `api_key: ${KEY}\napi_keys:\n  - { name: a, key: ${KEY}a, admin: true }\n  - { name: b, key: ${KEY}b, max_image_bytes: 2097152 }\n`,
    );
    expect((await load()).apiKeys).toMatchObject([
      { name: "default", scope: "admin" },
      { name: "a", scope: "admin" },
      { name: "b", scope: "use", maxImageBytes: 2_097_152 },
    ]);
  });
});

describe("loadConfig() with a configuration of the older program", () => {
  it("accepts keys with an equivalent, and explains the others one by one", async () => {
    const { load, file } = await makePlace(
      [
        "pool: { enabled: true, images: { sandbox-runtime:python: 3 } }",
        "workspace: { enabled: true, persist_by_default: true, disk_limit_mb: 512 }",
        'security: { seccomp: "mvp" }',
        "dashboard_enabled: true",
        'playground_config_path: "x"',
        "",
      ].join("\n"),
    );
    const config = await load({
      env: {
        SANDKASTEN_CPU_LIMIT: "2",
        SANDKASTEN_MEM_LIMIT_MB: "256",
        SANDKASTEN_PIDS_LIMIT: "128",
        SANDKASTEN_MAX_EXEC_TIMEOUT_MS: "30000",
        SANDKASTEN_NETWORK_MODE: "none",
        SANDKASTEN_READONLY_ROOTFS: "false",
        SANDKASTEN_SECCOMP: "off",
        SANDKASTEN_DEFAULTS_PIDS_LIMIT: "64",
      },
    });
    expect(config.defaults).toMatchObject({
      limits: { cpuMillicores: 2000, memoryBytes: 256 * 2 ** 20, pids: 64 },
      maxExecTimeoutMs: 30_000,
      networkMode: "none",
      profile: "root",
    });
    expect(config.pool).toMatchObject([{ image: "sandbox-runtime:python", size: 3 }]);
    expect(config.workspace.diskBytes).toBe(512 * 2 ** 20);
    for (const warning of [
      `${file}:1:1: pool uses the format of the older Sandkasten`,
      `${file}:2:14: workspace.enabled of the older Sandkasten has no effect`,
      "workspace.persist_by_default of the older Sandkasten has no effect",
      "security of the older Sandkasten has no effect: the seccomp filter is always on",
      "dashboard_enabled of the older Sandkasten has no effect: the dashboard is always served",
      "playground_config_path of the older Sandkasten has no effect",
      "SANDKASTEN_CPU_LIMIT is now called SANDKASTEN_DEFAULTS_CPU_LIMIT; rename it",
      "SANDKASTEN_PIDS_LIMIT is ignored because SANDKASTEN_DEFAULTS_PIDS_LIMIT",
      "SANDKASTEN_SECCOMP of the older Sandkasten has no effect",
    ])
      expect(config.warnings).toContainEqual(expect.stringContaining(warning));
  });

  it("refuses keys that would change their meaning", async () => {
    const { problems } = await makePlace("pool: { size: 3 }\n");
    expect(await problems({ env: { SANDKASTEN_NETWORK_MODE: "bridge" } })).toEqual([
      expect.stringContaining("pool"),
      expect.stringContaining("SANDKASTEN_NETWORK_MODE (defaults.network_mode)"),
    ]);
  });
});

describe("loadConfig() with an invalid configuration", () => {
  it("reports all problems of all sources at once", async () => {
    const { problems, file } = await makePlace(
      "lisen: x\nsession_ttl_seconds: 0\ndefaults:\n  mem_limit_mb: 20000\n",
    );
    expect(
      await problems({
        env: { SANDKASTEN_LOG_LEVEL: "loud", SANDKASTEN_LISTEN: "0.0.0.0:80" },
        flags: { backend: "vm", runtme: "runc" },
      }),
    ).toEqual([
      `${file}:1:1: lisen is not known; the nearest known name is listen`,
      "--runtme is not known; the nearest known flag is --runtime",
      `${file}:2:22: session_ttl_seconds is 0; it must be an integer from 1 to 86400`,
      'SANDKASTEN_LOG_LEVEL is "loud"; it must be one of trace, debug, info, warn, error, fatal, silent',
      '--backend is "vm"; it must be one of auto, oci, docker',
      'listen (SANDKASTEN_LISTEN) is "0.0.0.0:80", which is reachable from other machines, and no key is configured; set api_key (SANDKASTEN_API_KEY) or api_keys, or listen on 127.0.0.1:80',
      `defaults.mem_limit_mb (${file}:4:17) is 20000, more than the 16384 of max_limits.mem_limit_mb (by default); lower the one or raise the other`,
    ]);
  });

  it("never prints a key", async () => {
    const secret = "hush-hush";
    const { problems } = await makePlace(
      `api_key: "${secret} "\napi_keys:\n  - ${secret}\n  - { name: a, key: "${secret}\\t" }\n  - { name: a, key: [${secret}] }\n`,
    );
    const all = await problems({
      env: { SANDKASTEN_API_KEY: ` ${secret}`, SANDKASTEN_API_KEYS: `${secret},b=hush` },
      flags: { "api-key": `${secret}\n` },
    });
    expect(all).toHaveLength(8);
    expect(all.join("\n")).not.toContain("hush");
    expect(all).toContainEqual(
      "SANDKASTEN_API_KEYS: api_keys[1].key must have 8 to 512 characters, all of them visible ASCII",
    );
    const twice = await makePlace(
      `api_key: ${secret}\napi_keys:\n  - { name: a, key: ${secret} }\n  - { name: a, key: other-key }\n  - { name: default, key: third-key }\n`,
    );
    expect(await twice.problems()).toEqual([
      expect.stringContaining('gives "a" the same key as another name'),
      expect.stringContaining('uses the name "a" again'),
      expect.stringContaining('uses the name "default" (which is the name of api_key\'s owner)'),
    ]);
  });

  it.each(["host", "HOST", "none", "container:abc", "-x", ""])(
    "refuses %j as the network of sandboxes",
    async (network) => {
      const { problems } = await makePlace(`docker:\n  network: ${JSON.stringify(network)}\n`);
      expect(await problems()).toEqual([expect.stringContaining("docker.network")]);
    },
  );

  it("refuses a network for requests that do not ask for one", async () => {
    const { problems, file } = await makePlace("defaults:\n  network_mode: bridge\n");
    expect(await problems()).toEqual([
      `${file}:2:17: defaults.network_mode is "bridge"; it must be none: a sandbox has a network only if its request asks for it, and network.allow (or docker.network) allows it`,
    ]);
  });

  it("refuses more files than fit on a disk, and says how many fit", async () => {
    const { problems, file } = await makePlace(
      "defaults: { disk_limit_mb: 16 }\nworkspace:\n  disk_inodes: 4194304\n",
    );
    expect(await problems()).toEqual([
      `defaults.disk_inodes (by default) is 65536, but a disk of the 16 MiB of defaults.disk_limit_mb (${file}:1:28) has room for 32768; lower the one to 32768 or raise the other to 32`,
      `workspace.disk_inodes (${file}:3:16) is 4194304, but a disk of the 1024 MiB of workspace.disk_limit_mb (by default) has room for 2097152; lower the one to 2097152 or raise the other to 2048`,
    ]);
    const fitting = await makePlace(
      "defaults: { disk_limit_mb: 32 }\nworkspace: { disk_limit_mb: 16, disk_inodes: 32768 }\n",
    );
    expect((await fitting.load()).workspace).toEqual({ diskBytes: 2 ** 24, diskInodes: 32_768 });
  });

  it.each([
    ["cluster:\n  address: http://10.0.0.1:8080\n", "needs cluster.secret"],
    ["cluster:\n  address: http://10.0.0.1:8080\n  secret: shared-secret\n", "needs database_url"],
    ["database_url: mysql://hush@db/x\n", "must be postgresql://"],
    [
      "database_url: postgresql://db/x\ncluster: { address: 'http://a/b', secret: sharedsecret }\n",
      "must be http://host:port",
    ],
  ])("refuses daemons that could not reach each other: %j", async (text, problem) => {
    const { problems } = await makePlace(text);
    expect(await problems()).toEqual([expect.stringContaining(problem)]);
    expect((await problems()).join()).not.toContain("hush");
  });

  it("refuses the profile root if it is not allowed", async () => {
    const { problems } = await makePlace(
      "allow_root_profile: false\ndefaults: { readonly_rootfs: false }\npool: [{ image: host, size: 1, profile: root }]\n",
    );
    expect(await problems()).toHaveLength(2);
  });

  it("refuses configured images that allowed_images does not include", async () => {
    const list = "allowed_images: ['python:*']\n";
    const { load } = await makePlace(list);
    expect((await load()).warnings).toEqual([
      expect.stringContaining("sessions that name no image will be refused"),
    ]);
    const chosen = await makePlace(
      `${list}default_image: node\npool: [{ image: "ubuntu:1", size: 1 }, { image: python, size: 1 }, { image: python, size: 2 }]\n`,
    );
    expect(await chosen.problems()).toEqual([
      expect.stringContaining('has "ubuntu:1", which is not among allowed_images'),
      expect.stringContaining('has "python" again'),
      expect.stringContaining("default_image"),
    ]);
    const fallback = await makePlace("allowed_images: [host]\ndefault_image: node\n");
    expect((await fallback.load()).defaultImage).toBe("node");
  });

  it("does not empty a list because of a stray comma", async () => {
    const { problems } = await makePlace("allowed_images: [host]\n");
    expect(await problems({ env: { SANDKASTEN_ALLOWED_IMAGES: " , " } })).toEqual([
      'SANDKASTEN_ALLOWED_IMAGES is " , "; it must be a list',
    ]);
  });
});

describe("loadConfig() and who can reach the API", () => {
  it.each(["0.0.0.0:80", "[::]:80", "192.0.2.1:80", "sandbox.test:80"])(
    "listens on %s only with a configured key",
    async (listen) => {
      const { load, problems } = await makePlace();
      expect(await problems({ env: { SANDKASTEN_LISTEN: listen } })).toHaveLength(1);
      for (const keys of [{ SANDKASTEN_API_KEY: KEY }, { SANDKASTEN_API_KEYS: `ci=${KEY}` }]) {
        const config = await load({ env: { SANDKASTEN_LISTEN: listen, ...keys } });
        expect(config.listen.port).toBe(80);
      }
    },
  );

  it("warns about a file with keys that others can read, and about no other", async () => {
    const { load, file } = await makePlace(`api_key: ${KEY}\n`);
    expect((await load()).warnings).toEqual([]);
    await chmod(file, 0o640);
    expect((await load()).warnings).toEqual([
      `${file} contains keys and other users can read it (mode 640); run chmod 600 on it`,
    ]);
    const harmless = await makePlace("log_level: warn\n");
    await chmod(harmless.file, 0o644);
    expect((await harmless.load()).warnings).toEqual([]);
  });

  it("warns about the key from the examples", async () => {
    const { load } = await makePlace('api_key: "sk-sandbox-..."\n');
    expect((await load()).warnings).toEqual([expect.stringContaining("which is public")]);
  });
});
