/** A4: changes to device nodes inside a sandbox are visible nowhere else. */
import { stat } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { isolationSuite } from "./probe/isolation-suite.ts";

const DEVICES = ["null", "zero", "full", "random", "urandom", "tty"];
/** 3 February 2001, midnight. */
const FORGED_SECONDS = 981_158_400;

async function hostDevices(): Promise<readonly string[]> {
  return await Promise.all(
    DEVICES.map(async (name) => {
      const { uid, gid, mode, mtimeMs } = await stat(`/dev/${name}`);
      const forged = Math.round(mtimeMs / 1000) === FORGED_SECONDS;
      return `${name} ${uid}:${gid} ${(mode & 0o7777).toString(8)}${forged ? " forged" : ""}`;
    }),
  );
}

describe("device nodes", () => {
  const attacked = isolationSuite();

  test("change inside, for root, and never on the host", async () => {
    const before = await hostDevices();
    await attacked(async ({ sh }) => {
      const { output } = await sh(
        `cd /dev && for d in ${DEVICES.join(" ")}; do ` +
          `chmod 0667 $d && chown 7:8 $d && touch -d @${FORGED_SECONDS} $d && ` +
          "stat -c '%n %u:%g %a %Y' $d; done",
      );
      expect(output.trim().split("\n")).toEqual(
        DEVICES.map((name) => `${name} 7:8 667 ${FORGED_SECONDS}`),
      );
      expect(await hostDevices()).toEqual(before);
    }, "root");
  });

  test("do not change for code without capabilities", async () => {
    const before = await hostDevices();
    await attacked(async ({ sh }) => {
      const { output } = await sh(
        `for d in ${DEVICES.map((name) => `/dev/${name}`).join(" ")}; do ` +
          `chmod 0667 $d || chown 1000 $d || touch -d @${FORGED_SECONDS} $d; done 2>/dev/null; ` +
          "stat -c '%a' /dev/null",
      );
      expect(output).toBe("666\n");
      expect(await hostDevices()).toEqual(before);
    });
  });

  test("are not shared with another sandbox", async () => {
    await attacked(async ({ sh }, { another }) => {
      const other = await another();
      await sh("chmod 0600 /dev/zero; rm /dev/full; echo taken > /dev/full");
      const { output } = await other.sh("stat -c %a /dev/zero; ls -l /dev/full | cut -c1");
      expect(output).toBe("666\nc\n");
    }, "root");
  });
});
