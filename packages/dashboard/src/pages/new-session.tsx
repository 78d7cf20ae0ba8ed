/** The form for a new session. */
import type { JSX, TargetedSubmitEvent } from "preact";
import { useState } from "preact/hooks";
import { Dialog } from "../parts/dialog.tsx";
import { textIn } from "../parts/form-text.ts";
import { messageOf } from "../parts/format.ts";
import { useLoaded } from "../parts/use-loaded.ts";
import { goTo } from "../routing.ts";
import { connection } from "../state/connection.ts";
import { learnSession } from "../state/sessions.ts";

const TTLS = [
  ["900", "15 minutes"],
  ["1800", "30 minutes"],
  ["7200", "2 hours"],
  ["28800", "8 hours"],
] as const;

export function NewSession({ onClose }: { readonly onClose: () => void }): JSX.Element {
  const [failure, setFailure] = useState<string | undefined>(undefined);
  const [isBusy, setBusy] = useState(false);
  const images = useLoaded(
    async (signal) => (await connection.peek()?.client.images.list({ signal })) ?? [],
    [],
  );
  const create = async (form: HTMLFormElement): Promise<void> => {
    const text = (name: string): string => textIn(form, name);
    const hosts = text("hosts")
      .split(/[\s,]+/)
      .filter((host) => host !== "");
    const session = await connection.peek()?.client.createSession({
      ...(text("image") !== "" && { image: text("image") }),
      ...(text("workspace") !== "" && { workspaceId: text("workspace") }),
      ...(hosts.length > 0 && { network: { allow: hosts } }),
      ...(text("name") !== "" && { metadata: { name: text("name") } }),
      ttlSeconds: Number(text("ttl")),
    });
    if (session === undefined) return;
    learnSession(session.lastInfo);
    onClose();
    goTo("sessions", session.id);
  };
  const submit = (event: TargetedSubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    setBusy(true);
    create(event.currentTarget).catch((error: unknown) => {
      setFailure(messageOf(error));
      setBusy(false);
    });
  };
  return (
    <Dialog title="New session" onClose={onClose}>
      <form onSubmit={submit}>
        <label>
          <span>Image</span>
          <input name="image" list="images" placeholder="default" autofocus />
          <datalist id="images">
            {images.value?.map(({ reference }) => (
              <option key={reference} value={reference} />
            ))}
          </datalist>
        </label>
        <label>
          <span>
            Name <small>optional</small>
          </span>
          <input name="name" maxLength={200} />
        </label>
        <label>
          <span>
            Workspace <small>optional; its files outlive the session</small>
          </span>
          <input name="workspace" />
        </label>
        <label>
          <span>
            Network <small>optional; hosts that the session can reach</small>
          </span>
          <input name="hosts" placeholder="pypi.org, *.example.com:443" />
        </label>
        <label>
          <span>Expires without use after</span>
          <select name="ttl">
            {TTLS.map(([seconds, title]) => (
              <option key={seconds} value={seconds} selected={seconds === "1800"}>
                {title}
              </option>
            ))}
          </select>
        </label>
        {failure !== undefined && (
          <p class="failure" role="alert">
            {failure}
          </p>
        )}
        <div class="dialog-buttons">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={isBusy}>
            {isBusy ? "Creating…" : "Create"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
