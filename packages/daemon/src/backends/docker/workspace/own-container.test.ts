import { expect, test } from "vitest";
import { surroundingsOf } from "./own-container.ts";

const ID = "0123456789abcdef".repeat(4);
const OTHER = "fedcba9876543210".repeat(4);
const nothing = { mounts: "", cgroups: "0::/\n", marked: false, hostname: "machine" };
const ownFile = (id: string): string =>
  `99 76 254:0 /var/lib/docker/containers/${id}/hostname /etc/hostname rw,relatime - ext4 /dev/vda rw\n`;

test("a plain machine is not a container, even if it runs some", () => {
  // The engine's machine has mounts of its containers, and a name can look like an id.
  const mounts = `50 29 0:44 / /var/lib/docker/containers/${ID}/mounts/shm rw - tmpfs shm rw\n`;
  expect(surroundingsOf({ ...nothing, mounts, hostname: "0123456789ab" })).toEqual({
    inContainer: false,
    candidates: [],
  });
});

test.each([
  ["its own files", { mounts: ownFile(ID) }, [ID]],
  ["its cgroup", { cgroups: `4:memory:/docker/${ID}\n0::/docker/${ID}\n` }, [ID]],
  ["its scope", { cgroups: `0::/system.slice/docker-${ID}.scope\n` }, [ID]],
  ["its name", { marked: true, hostname: "0123456789ab" }, ["0123456789ab"]],
  ["a mark alone", { marked: true }, []],
  ["Kubernetes", { cgroups: "0::/kubepods.slice/pod1\n" }, []],
])("a container is detected by %s", (_name, seen, candidates) => {
  expect(surroundingsOf({ ...nothing, ...seen })).toEqual({ inContainer: true, candidates });
});

test("the most certain candidate comes first, and each only once", () => {
  const seen = { mounts: ownFile(ID) + ownFile(ID), cgroups: `0::/docker/${OTHER}\n` };
  expect(surroundingsOf({ ...nothing, ...seen }).candidates).toEqual([ID, OTHER]);
});
