/** Reads that blocked paths must not pass, whatever links do between two requests. */
import { SandboxClient, type Session } from "@sandkasten/sdk";
import { describe, expect, it } from "vitest";
import { readUnblocked } from "./sandbox-paths.ts";

interface Answers {
  /** The path of the opened file; older daemons do not report it. */
  readonly opened?: string;
  /** What a second lookup finds. */
  readonly later: string;
  readonly requests: string[];
}

async function sessionWith({ opened, later, requests }: Answers): Promise<Session> {
  const answer = (url: URL): Response => {
    if (url.pathname.endsWith("/fs/realpath")) return Response.json({ ok: true, path: later });
    if (!url.pathname.endsWith("/fs/file")) return Response.json({ id: "ses_1", limits: {} });
    const isTold = opened !== undefined && url.searchParams.get("real_path") === "true";
    return new Response("content", {
      headers: isTold ? { "x-sandkasten-real-path": opened } : {},
    });
  };
  const client = new SandboxClient({
    baseUrl: "http://localhost",
    apiKey: "key",
    fetch: (target) => {
      const url = new URL(target);
      requests.push(url.pathname.split("/").at(-1) ?? "");
      return Promise.resolve(answer(url));
    },
  });
  return await client.getSession("ses_1");
}

const read = async (session: Session, start: number): Promise<string> =>
  Buffer.from(
    await readUnblocked(session, "/workspace/link", { start, maxBytes: 100, signal: undefined }),
  ).toString();

describe.each([0, 3])("a file that is read from byte %i", (start) => {
  it("is refused if the opened file is blocked, wherever its name leads later", async () => {
    const requests: string[] = [];
    const session = await sessionWith({ opened: "/etc/shadow", later: "/workspace/x", requests });
    await expect(read(session, start)).rejects.toMatchObject({ code: "REFUSED" });
  });

  it("needs one request", async () => {
    const requests: string[] = [];
    const session = await sessionWith({ opened: "/workspace/x", later: "/etc/shadow", requests });
    requests.length = 0;
    expect(await read(session, start)).toBe("content");
    expect(requests).toEqual(["file"]);
  });

  it("is checked with a second request if the daemon does not report its path", async () => {
    const requests: string[] = [];
    const blocked = await sessionWith({ later: "/etc/shadow", requests });
    await expect(read(blocked, start)).rejects.toMatchObject({ code: "REFUSED" });
    const allowed = await sessionWith({ later: "/workspace/x", requests });
    expect(await read(allowed, start)).toBe("content");
    expect(requests.filter((name) => name === "realpath")).toHaveLength(2);
  });
});
