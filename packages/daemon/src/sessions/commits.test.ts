import { SandboxError } from "@sandkasten/protocol";
import { describe, expect, it } from "vitest";
import type { ImageInfo, Images } from "../ports/image-store.ts";
import { lostOwnership } from "../ports/lost-ownership.ts";
import { Commits } from "./commits.ts";
import type { Caller } from "./services/caller.ts";
import type { CommitOptions } from "./services/commit-service.ts";
import type { SessionView } from "./services/session-service.ts";
import type { Sessions } from "./sessions.ts";

const ALICE = { owner: "alice" } as Caller;
/** The configuration of the committed image. */
const origin = { sessionId: "ses_1", check: expect.any(Function) as unknown };
const SESSION = {
  id: "ses_1",
  image: "tools:1",
  imageDigest: "sha256:1",
  profile: "root",
  backend: "oci",
  workspaces: [],
} as unknown as SessionView;

interface Setup {
  readonly session?: Partial<SessionView>;
  readonly body?: () => AsyncIterable<Uint8Array>;
  readonly image?: Partial<ImageInfo>;
  /** Another daemon takes over the session while it is packed. */
  readonly isLost?: boolean;
}

function setup(given: Setup = {}) {
  const { session = {}, body = () => bytes(3), image = {}, isLost = false } = given;
  const excluded: (readonly string[])[] = [];
  const imports: unknown[][] = [];
  let open = 0;
  const sessions = {
    finder: {
      requireServed: async () => {
        if (isLost) throw lostOwnership("ses_1");
        return await Promise.resolve();
      },
    },
    get: async (caller: Caller) => {
      if (caller.owner !== "alice") throw new SandboxError("SESSION_NOT_FOUND", "no session");
      return await Promise.resolve({ ...SESSION, ...session });
    },
    enter: async () => {
      open++;
      const createTar = async (_: string, options: { readonly exclude: readonly string[] }) => {
        excluded.push(options.exclude);
        return await Promise.resolve({ body: body() });
      };
      return await Promise.resolve({ channel: { createTar }, [Symbol.dispose]: () => open-- });
    },
  } as unknown as Sessions;
  const images = {
    inspect: async () =>
      await Promise.resolve({ digest: "sha256:1", env: { PATH: "/opt" }, ...image }),
    importRootfs: async (...args: unknown[]) => {
      imports.push(args);
      return await Promise.resolve({ reference: args[0] });
    },
  } as unknown as Images;
  const commits = new Commits({ sessions, imagesOf: () => images });
  return { commits, excluded, imports, entered: () => open };
}

async function* bytes(count: number): AsyncGenerator<Uint8Array, void, undefined> {
  for (let at = 0; at < count; at++) yield await Promise.resolve(new Uint8Array(1000));
}

function options(taken: { bytes: number } = { bytes: 0 }): CommitOptions {
  return {
    reference: "new:1",
    maxBytes: 10_000,
    withArchive: async (content, use) => {
      for await (const chunk of content) taken.bytes += chunk.byteLength;
      return await use("/scratch/archive");
    },
  };
}

describe("commit()", () => {
  it("imports the session's root with the variables of its image, and releases the session", async () => {
    const { commits, imports, entered } = setup();
    expect(await commits.commit(ALICE, "ses_1", options())).toEqual({ reference: "new:1" });
    expect(imports).toEqual([["new:1", "/scratch/archive", undefined, { PATH: "/opt" }, origin]]);
    expect(entered()).toBe(0);
  });

  it("moves no name after another daemon has taken over the session", async () => {
    const { commits, imports } = setup({ isLost: true });
    const refused = commits.commit(ALICE, "ses_1", options());
    await expect(refused).rejects.toMatchObject({ details: { reason: "moved" } });
    expect(imports).toEqual([]);
  });

  it("uses no variables of an image that only has the same name now", async () => {
    const { commits, imports } = setup({ image: { digest: "sha256:2" } });
    await commits.commit(ALICE, "ses_1", options());
    expect(imports).toEqual([["new:1", "/scratch/archive", undefined, {}, origin]]);
  });

  it("leaves out mounts, including workspaces whose paths look like patterns", async () => {
    const workspaces = [{ id: "w", path: "/mnt/[a]*", readOnly: false }];
    const { commits, excluded } = setup({ session: { workspaces } });
    await commits.commit(ALICE, "ses_1", options());
    expect(excluded[0]).toEqual(
      expect.arrayContaining(["/workspace", "/home/sandbox", "/proc", "/mnt/\\[a\\]\\*"]),
    );
  });

  it.each([{ profile: "restricted" as const }, { image: "host" }])(
    "refuses a session with %o",
    async (session) => {
      const { commits, imports } = setup({ session });
      const refused = commits.commit(ALICE, "ses_1", options());
      await expect(refused).rejects.toMatchObject({ code: "UNSUPPORTED" });
      expect(imports).toEqual([]);
    },
  );

  it("does not find a session of another owner", async () => {
    const { commits } = setup();
    const refused = commits.commit({ owner: "eve" } as Caller, "ses_1", options());
    await expect(refused).rejects.toMatchObject({ code: "SESSION_NOT_FOUND" });
  });

  it("stops an endless archive at the quota, imports nothing and releases the turn", async () => {
    const { commits, imports, entered } = setup({ body: () => bytes(Infinity) });
    const taken = { bytes: 0 };
    const refused = commits.commit(ALICE, "ses_1", options(taken));
    await expect(refused).rejects.toMatchObject({ code: "QUOTA_EXCEEDED" });
    expect(taken.bytes).toBe(10_000);
    expect([imports, entered()]).toEqual([[], 0]);
    const again = commits.commit(ALICE, "ses_1", options());
    await expect(again).rejects.toMatchObject({ details: { max_image_bytes: 10_000 } });
  });

  it("lets one key commit one session at a time", async () => {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const { commits } = setup();
    const first = commits.commit(ALICE, "ses_1", {
      ...options(),
      withArchive: async (_, use) => {
        await promise;
        return await use("/scratch/archive");
      },
    });
    await new Promise(setImmediate);
    const second = commits.commit(ALICE, "ses_1", options());
    await expect(second).rejects.toThrow(/one session at a time/);
    resolve(undefined);
    await first;
    await commits.commit(ALICE, "ses_1", options());
  });
});
