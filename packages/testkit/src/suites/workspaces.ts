/** Workspaces: disks that outlive sandboxes and can be mounted in several of them. */
import { randomBytes } from "node:crypto";
import { afterEach, expect, it } from "vitest";
import type { Backend, Channel, SandboxSpec, WorkspaceSpec } from "../ports.ts";
import { contentOf, run, withCode } from "./run-command.ts";

const MIB = 1024 * 1024;

export interface WorkspaceTools {
  readonly backend: () => Backend;
  /** A second backend on the same data. */
  readonly reopen: () => Promise<Backend>;
  /** A new sandbox's spec; the sandbox is destroyed after the case. */
  readonly newSpec: (changes?: Partial<SandboxSpec>) => SandboxSpec;
}

export function workspaceSuite({ backend, reopen, newSpec }: WorkspaceTools): void {
  const made: { readonly spec: WorkspaceSpec; readonly sandboxes: string[] }[] = [];

  afterEach(async () => {
    for (const { spec, sandboxes } of made.splice(0)) {
      for (const id of sandboxes) await backend().destroy(id);
      await backend().destroyWorkspace(spec.id);
    }
  });

  function newWorkspace(): WorkspaceSpec {
    const id = `wsp_${randomBytes(8).toString("hex")}`;
    const spec = { id, diskBytes: 32 * MIB, diskInodes: 1_024 };
    made.push({ spec, sandboxes: [] });
    return spec;
  }

  async function sandboxWith(
    workspace: WorkspaceSpec,
  ): Promise<{ readonly id: string; readonly channel: Channel }> {
    const spec = newSpec({ workspace });
    made.find((entry) => entry.spec.id === workspace.id)?.sandboxes.push(spec.id);
    expect(await backend().create(spec)).toMatchObject({ workspaceId: workspace.id });
    return { id: spec.id, channel: await backend().open(spec.id) };
  }

  it("keeps only the files of a workspace for the next sandbox", async () => {
    const workspace = newWorkspace();
    const first = await sandboxWith(workspace);
    await first.channel.writeFile("dir/kept", Buffer.from("kept"));
    await first.channel.writeFile("/tmp/gone", Buffer.from("gone"));
    expect((await run(first.channel, "echo said > /workspace/by-code")).end.exitCode).toBe(0);
    first.channel.close();
    await backend().destroy(first.id);

    const second = await sandboxWith(workspace);
    expect((await contentOf(second.channel, "dir/kept")).toString()).toBe("kept");
    expect((await run(second.channel, "cat /workspace/by-code")).stdout).toBe("said\n");
    await expect(second.channel.stat("/tmp/gone")).rejects.toMatchObject(
      withCode("FILE_NOT_FOUND"),
    );
    second.channel.close();
  });

  it("shows a workspace to several sandboxes at once, and to no other", async () => {
    const workspace = newWorkspace();
    const one = await sandboxWith(workspace);
    const two = await sandboxWith(workspace);
    await one.channel.writeFile("note", Buffer.from("from one"));
    expect((await contentOf(two.channel, "note")).toString()).toBe("from one");
    await two.channel.writeFile("note", Buffer.from("from two"));
    expect((await run(one.channel, "cat note")).stdout).toBe("from two");
    await two.channel.remove("note");
    await expect(one.channel.stat("note")).rejects.toMatchObject(withCode("FILE_NOT_FOUND"));

    const other = newSpec();
    expect((await backend().create(other)).workspaceId).toBeUndefined();
    const apart = await backend().open(other.id);
    await one.channel.writeFile("secret", Buffer.from("of both"));
    await expect(apart.stat("secret")).rejects.toMatchObject(withCode("FILE_NOT_FOUND"));

    // One sandbox ends, the other continues.
    one.channel.close();
    await backend().destroy(one.id);
    expect((await run(two.channel, "cat secret")).stdout).toBe("of both");
    for (const channel of [two.channel, apart]) channel.close();
  });

  it("reports the usage of a sandbox's own disk", async () => {
    const { id, channel } = await sandboxWith(newWorkspace());
    await channel.writeFile("megabytes", Buffer.alloc(4 * MIB, 1));
    const { diskBytes, diskLimitBytes } = await backend().stats(id);
    expect(diskBytes).toBeLessThan(4 * MIB);
    expect(diskLimitBytes).toBe((await backend().adopt(id)).limits.diskBytes);
    expect((await backend().isolation(id)).facts.length).toBeGreaterThan(0);
    channel.close();
  });

  it("lists workspaces with their initial size", async () => {
    const workspace = newWorkspace();
    const listing = { id: workspace.id, diskLimitBytes: workspace.diskBytes };
    expect(await backend().listWorkspaces()).not.toContainEqual(listing);
    const first = await sandboxWith(workspace);
    first.channel.close();
    const second = await sandboxWith({ ...workspace, diskBytes: 48 * MIB });
    second.channel.close();
    expect(await backend().listWorkspaces()).toContainEqual(listing);
    for (const { id } of [first, second]) await backend().destroy(id);
    expect(await (await reopen()).listWorkspaces()).toContainEqual(listing);
  });

  it("refuses to destroy a workspace in use, and then destroys it permanently", async () => {
    const workspace = newWorkspace();
    const first = await sandboxWith(workspace);
    await first.channel.writeFile("old", Buffer.from("old"));
    first.channel.close();
    const second = await reopen();
    expect(await second.adopt(first.id)).toMatchObject({ workspaceId: workspace.id });
    for (const one of [backend(), second])
      await expect(one.destroyWorkspace(workspace.id)).rejects.toMatchObject(withCode("CONFLICT"));
    await backend().destroy(first.id);
    await Promise.all([
      backend().destroyWorkspace(workspace.id),
      second.destroyWorkspace(workspace.id),
    ]);
    await backend().destroyWorkspace(workspace.id);
    await backend().destroyWorkspace("wsp_neverwas");
    expect((await backend().listWorkspaces()).some(({ id }) => id === workspace.id)).toBe(false);
    // Its id now belongs to a new workspace.
    const { channel } = await sandboxWith(workspace);
    await expect(channel.stat("old")).rejects.toMatchObject(withCode("FILE_NOT_FOUND"));
    channel.close();
  });

  it("refuses a workspace whose id could be a path, or whose size is invalid", async () => {
    const workspace = newWorkspace();
    const before = await backend().list();
    for (const id of ["../x", "wsp_../x", "wsp_", "sbx_ab", "wsp_A1", `wsp_${"a".repeat(49)}`]) {
      await expect(
        backend().create(newSpec({ workspace: { ...workspace, id } })),
      ).rejects.toMatchObject(withCode("INVALID_REQUEST"));
      await expect(backend().destroyWorkspace(id)).rejects.toMatchObject(
        withCode("INVALID_REQUEST"),
      );
    }
    for (const wrong of [{ diskBytes: 0 }, { diskBytes: Number.NaN }, { diskInodes: 0.5 }])
      await expect(
        backend().create(newSpec({ workspace: { ...workspace, ...wrong } })),
      ).rejects.toMatchObject(withCode("INVALID_REQUEST"));
    expect(await backend().list()).toEqual(before);
    expect((await backend().listWorkspaces()).some(({ id }) => id === workspace.id)).toBe(false);
  });
}
