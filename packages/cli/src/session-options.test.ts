import { describe, expect, it } from "vitest";
import { sessionRequest } from "./session-options.ts";

const mounts = (...mount: readonly string[]) => sessionRequest({ mount }).workspaces;

describe("--mount", () => {
  it("names a workspace and its path, read-only with :ro", () => {
    expect(mounts("data:/mnt/data", "docs:/srv/a b:ro")).toEqual([
      { id: "data", path: "/mnt/data" },
      { id: "docs", path: "/srv/a b", readOnly: true },
    ]);
  });

  it.each(["data", "data:", ":/mnt", "data:mnt", "data:/mnt:rw", "data:/mnt:ro:ro", ""])(
    "refuses %j and says how to write it",
    (text) => {
      expect(() => mounts(text)).toThrow(
        expect.objectContaining({
          message: `--mount ${text} is not valid.`,
          hint: expect.stringContaining("ID:/PATH:ro"),
        }),
      );
    },
  );

  it("is absent from the request if it is not given", () => {
    expect(sessionRequest({})).not.toHaveProperty("workspaces");
  });
});
