/** The conformance suite of the `Backend` port: every backend passes it. */
import { randomBytes } from "node:crypto";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Backend, SandboxLimits, SandboxSpec } from "./ports.ts";
import { contentOf, run, withCode } from "./suites/run-command.ts";
import { workspaceSuite } from "./suites/workspaces.ts";

export interface BackendFixture {
  readonly backend: Backend;
  /** A usable image with a shell. */
  readonly image: string;
  /** A second backend on the same data, as a restarted daemon has it. The first one keeps working. */
  readonly reopen: () => Promise<Backend>;
  /** Called after all sandboxes were destroyed. */
  readonly close: () => Promise<void>;
}

const LIMITS: SandboxLimits = {
  memoryBytes: 128 * 1024 * 1024,
  cpuMillicores: 500,
  pids: 64,
  diskBytes: 64 * 1024 * 1024,
  diskInodes: 4_096,
};

/**
 * `unavailable` says why the backend cannot be used here; the suite is then skipped with that
 * reason in its name.
 */
export function backendSuite(
  name: string,
  makeFixture: () => Promise<BackendFixture>,
  unavailable?: string,
): void {
  const note = unavailable === undefined ? "" : ` (skipped: ${unavailable})`;
  describe.skipIf(unavailable !== undefined)(
    `${name} as a backend${note}`,
    { timeout: 60_000 },
    () => {
      let fixture: BackendFixture;
      const made: string[] = [];

      beforeAll(async () => {
        fixture = await makeFixture();
      });
      afterEach(async () => {
        for (const id of made.splice(0)) await fixture.backend.destroy(id);
      });
      afterAll(async () => {
        await fixture.close();
      });

      function newSpec(changes: Partial<SandboxSpec> = {}): SandboxSpec {
        const id = `sbx_${randomBytes(8).toString("hex")}`;
        made.push(id);
        return {
          id,
          image: fixture.image,
          limits: LIMITS,
          profile: "restricted",
          env: { FROM_SPEC: "yes" },
          ...changes,
        };
      }

      it("creates a sandbox, runs a command in it, and removes it completely", async () => {
        const { backend } = fixture;
        const spec = newSpec();
        const handle = await backend.create(spec);
        expect(handle).toMatchObject({ id: spec.id, profile: "restricted", limits: LIMITS });
        expect(await backend.list()).toContainEqual({ id: spec.id, state: "running" });
        const channel = await backend.open(spec.id);
        expect((await run(channel, "echo $FROM_SPEC")).stdout).toBe("yes\n");
        expect((await run(channel, ["printenv", "FROM_SPEC"])).stdout).toBe("yes\n");
        channel.close();
        await backend.destroy(spec.id);
        expect((await backend.list()).some((listed) => listed.id === spec.id)).toBe(false);
        await expect(backend.open(spec.id)).rejects.toMatchObject(withCode("SANDBOX_NOT_FOUND"));
      });

      it("refuses a second sandbox with the same id and does not affect the first", async () => {
        const { backend } = fixture;
        const spec = newSpec();
        await backend.create(spec);
        const channel = await backend.open(spec.id);
        await channel.writeFile("mine", Buffer.from("still here"));
        await expect(backend.create(spec)).rejects.toMatchObject(withCode("CONFLICT"));
        expect((await contentOf(channel, "mine")).toString()).toBe("still here");
        channel.close();
      });

      it("destroys idempotently, including sandboxes that never existed", async () => {
        const { backend } = fixture;
        const spec = newSpec();
        await backend.create(spec);
        await Promise.all([backend.destroy(spec.id), backend.destroy(spec.id)]);
        await backend.destroy(spec.id);
        await backend.destroy("sbx_neverwas");
      });

      it("returns SANDBOX_NOT_FOUND for unknown sandboxes", async () => {
        const { backend } = fixture;
        const id = "sbx_neverwas";
        for (const method of ["open", "adopt", "pause", "resume", "stats", "isolation"] as const) {
          await expect(backend[method](id)).rejects.toMatchObject(withCode("SANDBOX_NOT_FOUND"));
        }
      });

      it("refuses an id that could be a path or an option", async () => {
        for (const id of ["../x", "sbx_../x", "sbx_", "-rf", "sbx_A", `sbx_${"a".repeat(49)}`]) {
          await expect(fixture.backend.create({ ...newSpec(), id })).rejects.toMatchObject(
            withCode("INVALID_REQUEST"),
          );
        }
      });

      it("leaves nothing behind if a sandbox cannot be created", async () => {
        const { backend } = fixture;
        const before = await backend.list();
        const spec = newSpec({ image: "no-such-image/anywhere:ever" });
        await expect(backend.create(spec)).rejects.toMatchObject(withCode("INVALID_IMAGE"));
        expect(await backend.list()).toEqual(before);
      });

      it("creates nothing if the caller has already aborted", async () => {
        const { backend } = fixture;
        const before = await backend.list();
        await expect(backend.create(newSpec(), AbortSignal.abort())).rejects.toMatchObject(
          withCode("CANCELLED"),
        );
        expect(await backend.list()).toEqual(before);
      });

      it.each([
        ["memoryBytes", 0],
        ["pids", -1],
        ["cpuMillicores", 0.5],
        ["diskBytes", Number.NaN],
        ["diskInodes", 0],
      ] as const)(
        "refuses the limit %s of %d, and leaves alone what has that id",
        async (name, value) => {
          const { backend } = fixture;
          const spec = newSpec();
          await backend.create(spec);
          const wrong = { ...spec, limits: { ...LIMITS, [name]: value } };
          await expect(backend.create(wrong)).rejects.toMatchObject(withCode("INVALID_REQUEST"));
          const channel = await backend.open(spec.id);
          expect((await run(channel, "echo alive")).stdout).toBe("alive\n");
          channel.close();
        },
      );

      it.each([0, 5, 20, 60])(
        "removes a sandbox that is destroyed %d ms into its creation",
        async (ms) => {
          const { backend } = fixture;
          const spec = newSpec();
          const making = backend.create(spec).then(
            () => "made",
            (error: unknown) => error,
          );
          if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
          await backend.destroy(spec.id);
          const outcome = await making;
          if (outcome !== "made") expect(outcome).toMatchObject(withCode("CANCELLED"));
          expect((await backend.list()).some((listed) => listed.id === spec.id)).toBe(false);
        },
      );

      it("is opened and resumed by a restarted backend after it was paused", async () => {
        const { backend, reopen } = fixture;
        const spec = newSpec();
        await backend.create(spec);
        await backend.pause(spec.id);
        await expect(backend.isolation(spec.id)).rejects.toMatchObject(withCode("CONFLICT"));
        const second = await reopen();
        const channel = await second.open(spec.id);
        await second.resume(spec.id);
        expect((await run(channel, "echo resumed")).stdout).toBe("resumed\n");
        channel.close();
        // The first backend notices it automatically.
        expect((await backend.isolation(spec.id)).facts.length).toBeGreaterThan(0);
      });

      it("isolates sandboxes from each other", async () => {
        const { backend } = fixture;
        const [one, two] = [newSpec(), newSpec()];
        await Promise.all([backend.create(one), backend.create(two)]);
        const [first, second] = [await backend.open(one.id), await backend.open(two.id)];
        await first.writeFile("secret", Buffer.from("of the first"));
        await first.writeFile("/tmp/secret", Buffer.from("of the first"));
        await run(first, "export SECRET=first");
        for (const path of ["secret", "/tmp/secret"]) {
          await expect(second.stat(path)).rejects.toMatchObject(withCode("FILE_NOT_FOUND"));
        }
        expect((await run(second, 'echo "<$SECRET>"')).stdout).toBe("<>\n");
        first.close();
        second.close();
      });

      it("stops all work while paused and continues when resumed", async () => {
        const { backend } = fixture;
        const spec = newSpec();
        await backend.create(spec);
        const channel = await backend.open(spec.id);
        await run(channel, "true");
        await backend.pause(spec.id);
        expect(await backend.list()).toContainEqual({ id: spec.id, state: "paused" });
        let answered = false;
        const pending = run(channel, "echo resumed").finally(() => {
          answered = true;
        });
        await new Promise((resolve) => setTimeout(resolve, 300));
        expect(answered).toBe(false);
        expect((await backend.stats(spec.id)).memoryLimitBytes).toBe(LIMITS.memoryBytes);
        await backend.resume(spec.id);
        expect((await pending).stdout).toBe("resumed\n");
        expect(await backend.list()).toContainEqual({ id: spec.id, state: "running" });
        channel.close();
      });

      it("destroys a paused sandbox", async () => {
        const { backend } = fixture;
        const spec = newSpec();
        await backend.create(spec);
        await backend.pause(spec.id);
        await backend.destroy(spec.id);
        expect((await backend.list()).some((listed) => listed.id === spec.id)).toBe(false);
      });

      it("is adopted completely by a restarted backend", async () => {
        const { backend, reopen } = fixture;
        const spec = newSpec();
        const handle = await backend.create(spec);
        const before = await backend.open(spec.id);
        await before.writeFile("kept", Buffer.from("kept"));
        await run(before, "export KEPT=variable; cd /tmp");
        const running = await before.exec(
          { kind: "process", argv: ["sleep", "60"] },
          { execId: "across-restart" },
        );
        running.detach();
        before.close();

        const second = await reopen();
        expect(await second.list()).toContainEqual({ id: spec.id, state: "running" });
        expect(await second.adopt(spec.id)).toEqual({ ...handle, state: "running" });
        const after = await second.open(spec.id);
        expect((await contentOf(after, "kept")).toString()).toBe("kept");
        expect((await run(after, 'pwd; echo "$KEPT"')).stdout).toBe("/tmp\nvariable\n");
        expect(
          (await after.listExecs()).find((exec) => exec.execId === "across-restart")?.state,
        ).toBe("running");
        after.close();
        await second.destroy(spec.id);
        expect((await backend.list()).some((listed) => listed.id === spec.id)).toBe(false);
      });

      it("disconnects a channel when one with a greater fencing token is in use", async () => {
        const { backend, reopen } = fixture;
        const spec = newSpec({ fence: 5 });
        await backend.create(spec);
        const replaced = await backend.open(spec.id, 5);
        const halfWritten = Promise.withResolvers<void>();
        const released = Promise.withResolvers<void>();
        async function* late(): AsyncGenerator<Uint8Array> {
          yield Buffer.alloc(100_000, "late");
          halfWritten.resolve();
          await released.promise;
          yield Buffer.from("too late");
        }
        const writing = replaced.writeFile("file", late()).catch((error: unknown) => error);
        await halfWritten.promise;

        const second = await reopen();
        const channel = await second.open(spec.id, 9);
        await channel.writeFile("file", Buffer.from("newer"));
        released.resolve();
        const unreachable = withCode("SANDBOX_UNREACHABLE");
        expect(await writing).toMatchObject(unreachable);
        expect((await contentOf(channel, "file")).toString()).toBe("newer");
        await expect(replaced.ping()).rejects.toMatchObject(unreachable);
        const older = await (await reopen()).open(spec.id, 7);
        await expect(older.ping()).rejects.toMatchObject(unreachable);
        await channel.ping();
        for (const open of [replaced, channel, older]) open.close();
      });

      it("returns plausible stats", async () => {
        const { backend } = fixture;
        const spec = newSpec();
        await backend.create(spec);
        const channel = await backend.open(spec.id);
        await channel.writeFile("megabyte", Buffer.alloc(1_000_000, 1));
        const before = await backend.stats(spec.id);
        await Promise.all(Array.from({ length: 4 }, () => run(channel, ["true"])));
        const after = await backend.stats(spec.id);
        expect(after).toMatchObject({
          memoryLimitBytes: LIMITS.memoryBytes,
          pidsLimit: LIMITS.pids,
          oomKills: 0,
        });
        expect(after.memoryBytes).toBeGreaterThan(0);
        expect(after.memoryBytes).toBeLessThanOrEqual(after.memoryLimitBytes);
        expect(after.pids).toBeGreaterThanOrEqual(1);
        expect(after.pids).toBeLessThanOrEqual(after.pidsLimit);
        expect(after.cpuUsageUsec).toBeGreaterThanOrEqual(before.cpuUsageUsec);
        expect(after.diskBytes).toBeGreaterThanOrEqual(1_000_000);
        expect(after.diskLimitBytes).toBeLessThanOrEqual(LIMITS.diskBytes);
        channel.close();
      });

      it("reports its measured isolation, and its capabilities", async () => {
        const { backend } = fixture;
        const spec = newSpec();
        await backend.create(spec);
        const report = await backend.isolation(spec.id);
        expect(report.runtime).not.toBe("");
        expect(report.facts.length).toBeGreaterThan(0);
        for (const fact of report.facts) expect([fact.name, fact.measured]).not.toContain("");
        expect(await backend.health()).toMatchObject({ usable: true });
      });

      workspaceSuite({
        backend: () => fixture.backend,
        reopen: () => fixture.reopen(),
        newSpec,
      });
    },
  );
}
