/** The session's listening ports, and previews of them. */
import type { Session } from "@sandkasten/sdk";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Icon } from "../parts/icons.tsx";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { attempt } from "../parts/toasts.tsx";
import { useLoaded } from "../parts/use-loaded.ts";
import { onEvent } from "../state/feed.ts";
import type { TabProps } from "./tab-props.ts";

export function PortsTab({ session }: TabProps): JSX.Element {
  const [shown, setShown] = useState<number | undefined>(undefined);
  const listed = useLoaded((signal) => session.ports({ signal }), [session]);
  useEffect(
    () =>
      onEvent(({ type, sessionId }) => {
        if (sessionId === session.id && type.startsWith("exec.")) listed.reload();
      }),
    [session, listed.reload],
  );
  return (
    <div class="ports">
      <div class="files-bar">
        <span class="file-title muted">Listening TCP ports</span>
        <button type="button" onClick={listed.reload}>
          <Icon name="refresh" /> Refresh
        </button>
      </div>
      <Failure of={listed.failure} />
      {listed.value === undefined && listed.failure === undefined && <Loading />}
      {listed.value?.length === 0 && (
        <Empty>
          Nothing listens. Start a server in the terminal, for example{" "}
          <code>python3 -m http.server</code>, then refresh.
        </Empty>
      )}
      <ul class="entries">
        {listed.value?.map(({ port, address, process: program }) => (
          <li key={`${address}:${port}`}>
            <span class="entry">
              <strong class="mono">{port}</strong>
              <span class="muted mono">{address}</span>
              <span class="entry-name">{program}</span>
            </span>
            <button type="button" aria-pressed={shown === port} onClick={() => setShown(port)}>
              Preview
            </button>
            <button type="button" onClick={() => attempt(() => openTab(session, port))}>
              <Icon name="external" /> Open
            </button>
          </li>
        ))}
      </ul>
      {shown !== undefined && <PreviewFrame key={shown} session={session} port={shown} />}
    </div>
  );
}

/** SECURITY: the new tab gets no handle of this one (threat: hostile previews). */
async function openTab(session: Session, port: number): Promise<void> {
  const url = await session.url(port);
  window.open(url, "_blank", "noopener,noreferrer");
}

const FRAME_RIGHTS = "allow-downloads allow-forms allow-modals allow-popups allow-scripts";

/**
 * SECURITY: the page in the frame is hostile. It has a separate origin, and cannot navigate this
 * tab. If the daemon has no host name for it, it comes from the daemon's own origin; the sandbox
 * attribute then gives it an opaque one (threat: hostile previews). Guarded by
 * tests/e2e/dashboard-previews.test.ts.
 */
function PreviewFrame(props: { readonly session: Session; readonly port: number }): JSX.Element {
  const { session, port } = props;
  const link = useLoaded((signal) => session.url(port, { signal }), [session, port]);
  if (link.value === undefined) return <Failure of={link.failure} />;
  const isForeign = new URL(link.value).origin !== location.origin;
  return (
    <iframe
      class="preview"
      title={`Preview of port ${port}`}
      src={link.value}
      sandbox={isForeign ? `${FRAME_RIGHTS} allow-same-origin` : FRAME_RIGHTS}
      referrerpolicy="no-referrer"
    />
  );
}
