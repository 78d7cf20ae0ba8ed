/** Workspaces: directories that outlive sessions, and their files. */
import type { WorkspaceInfo } from "@sandkasten/sdk";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { FileBrowser } from "../files/file-browser.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { dateTime, shortId } from "../parts/format.ts";
import { Empty, Failure } from "../parts/notice.tsx";
import { attempt } from "../parts/toasts.tsx";
import { useLoaded } from "../parts/use-loaded.ts";
import { linkTo } from "../routing.ts";
import { connection } from "../state/connection.ts";
import { sessions } from "../state/sessions.ts";

export function WorkspacesPage(): JSX.Element {
  const client = connection.value?.client;
  const [opened, setOpened] = useState<string | undefined>(undefined);
  const [deleting, setDeleting] = useState<string | undefined>(undefined);
  // Workspaces come and go with sessions.
  const living = sessions.value.length;
  const { value, failure, reload } = useLoaded(
    async (signal) => (await client?.workspaces.list({ signal })) ?? [],
    [client, living],
  );
  const remove = (id: string): void => {
    setDeleting(undefined);
    setOpened(undefined);
    attempt(async () => {
      await client?.workspaces.delete(id);
      reload();
    }, "The workspace is deleted.");
  };
  return (
    <div class={`page ${opened === undefined ? "scroll" : "fill"}`}>
      <div class="page-head">
        <h1>Workspaces</h1>
      </div>
      <Failure of={failure} />
      {value?.length === 0 && (
        <Empty>No workspaces. A session that names one when it is created gets it.</Empty>
      )}
      {value !== undefined && value.length > 0 && (
        <table class="plain-table">
          <thead>
            <tr>
              {["Workspace", "Sessions", "Last used", "Created", ""].map((title) => (
                <th key={title} scope="col">
                  {title === "" ? <span class="unseen">Actions</span> : title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {value.map((workspace) => (
              <Row
                key={workspace.id}
                workspace={workspace}
                isOpen={workspace.id === opened}
                onOpen={() => setOpened(workspace.id === opened ? undefined : workspace.id)}
                onDelete={() => setDeleting(workspace.id)}
              />
            ))}
          </tbody>
        </table>
      )}
      {opened !== undefined && client !== undefined && (
        <section class="tab" aria-label={`Files of ${opened}`}>
          <FileBrowser key={opened} files={client.workspaces.files(opened)} start="/" />
        </section>
      )}
      {deleting !== undefined && (
        <Dialog title="Delete this workspace?" onClose={() => setDeleting(undefined)}>
          <p>
            All files in <span class="mono">{deleting}</span> are deleted.
          </p>
          <div class="dialog-buttons">
            <button type="button" onClick={() => setDeleting(undefined)}>
              Keep it
            </button>
            <button type="button" class="danger" onClick={() => remove(deleting)}>
              Delete
            </button>
          </div>
        </Dialog>
      )}
    </div>
  );
}

interface RowProps {
  readonly workspace: WorkspaceInfo;
  readonly isOpen: boolean;
  readonly onOpen: () => void;
  readonly onDelete: () => void;
}

function Row({ workspace, isOpen, onOpen, onDelete }: RowProps): JSX.Element {
  const { id, sessions: users, lastUsedAt, createdAt } = workspace;
  return (
    <tr>
      <th scope="row" class="mono">
        {id}
      </th>
      <td>
        {users.map((session) => (
          <a key={session} class="mono" href={linkTo("sessions", session)}>
            {shortId(session)}
          </a>
        ))}
      </td>
      <td>{dateTime(lastUsedAt)}</td>
      <td>{dateTime(createdAt)}</td>
      <td class="row-buttons">
        <button type="button" aria-pressed={isOpen} onClick={onOpen}>
          Files
        </button>
        <button type="button" class="danger" disabled={users.length > 0} onClick={onDelete}>
          Delete
        </button>
      </td>
    </tr>
  );
}
