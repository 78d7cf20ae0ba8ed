import { execFileSync } from "node:child_process";
import { chmod, chown, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { makePlace } from "./testing/load-fixture.ts";

describe("the configuration file", () => {
  it("is the one in the current directory, unless another is named", async () => {
    const { load, file, directory } = await makePlace("log_level: warn\n");
    expect(await load()).toMatchObject({ logLevel: "warn", file });
    const other = join(directory, "other.yaml");
    await writeFile(other, "log_level: error\n");
    expect(await load({ file: "other.yaml" })).toMatchObject({ logLevel: "error", file: other });
    const env = { SANDKASTEN_CONFIG: other };
    expect(await load({ env })).toMatchObject({ logLevel: "error", file: other });
    expect(await load({ env, file })).toMatchObject({ logLevel: "warn", file });
  });

  it("can be missing unless it is named", async () => {
    const { load, problems, directory } = await makePlace();
    expect(await load()).not.toHaveProperty("file");
    const missing = join(directory, "gone.yaml");
    expect(await problems({ file: "gone.yaml" })).toEqual([
      `the configuration file ${missing} does not exist`,
    ]);
    expect(await problems({ env: { SANDKASTEN_CONFIG: missing } })).toEqual([
      `the configuration file ${missing} (named by SANDKASTEN_CONFIG) does not exist`,
    ]);
  });

  it("must be a regular file with UTF-8 text and a reasonable size", async () => {
    const { problems, file, writeFile: write } = await makePlace();
    await mkdir(file);
    expect(await problems()).toEqual([`${file} is not a regular file`]);
    await rm(file, { recursive: true });
    execFileSync("mkfifo", [file]);
    expect(await problems()).toEqual([`${file} is not a regular file`]);
    await rm(file);
    await writeFile(file, Buffer.from([0x61, 0x3a, 0xff]), { mode: 0o600 });
    expect(await problems()).toEqual([`${file} is not UTF-8 text`]);
    await write("#".repeat(1_048_577));
    expect(await problems()).toEqual([`${file} is larger than 1048576 bytes`]);
  });

  it("is refused if it is world-writable and was not named explicitly", async () => {
    const { load, problems, file } = await makePlace("log_level: warn\n");
    await chmod(file, 0o666);
    expect(await problems()).toEqual([
      `${file} is writable by every user; name it (--config, SANDKASTEN_CONFIG) to use it`,
    ]);
    expect((await load({ file })).logLevel).toBe("warn");
  });

  it.runIf(process.geteuid?.() === 0)(
    "is refused if it belongs to another user, except the user who called sudo",
    async () => {
      const { load, problems, file } = await makePlace("log_level: warn\n");
      await chown(file, 12_345, 12_345);
      const refusal = `${file} belongs to another user; name it (--config, SANDKASTEN_CONFIG) to use it`;
      expect(await problems({ isRoot: true })).toEqual([refusal]);
      expect(await problems({ isRoot: true, env: { SUDO_UID: "1" } })).toEqual([refusal]);
      expect((await load({ isRoot: true, env: { SUDO_UID: "12345" } })).logLevel).toBe("warn");
      expect((await load({ isRoot: true, file })).logLevel).toBe("warn");
    },
  );
});
