/** Warns if a session does not have the requested image. */
import type { Session } from "@sandkasten/sdk";
import type { Cli } from "./cli.ts";
import { plainText } from "./output/plain-text.ts";

/** Only `host` substitutes for another image; a short name that became a full one is not reported. */
export async function warnOfSubstitute(cli: Cli, session: Session): Promise<void> {
  const { image, requestedImage } = session.lastInfo;
  if (image !== "host" || requestedImage === undefined || cli.wantsJson()) return;
  const name = plainText(requestedImage);
  await cli.err.line(
    `${cli.err.style.yellow("!")} The image ${name} is not available locally, so the session uses host, this machine's own programs. ` +
      `An administrator can build it with \`sandkasten image build-standard\`, or fetch it with \`sandkasten image pull ${name}\`.`,
  );
}
