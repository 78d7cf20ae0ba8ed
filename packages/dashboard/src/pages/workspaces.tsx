/** Workspaces: directories that outlive sessions, and their files. */
import type { SandboxClient, WorkspaceInfo } from "@sandkasten/sdk";
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { FileBrowser } from "../files/file-browser.tsx";
import { Confirm } from "../parts/confirm.tsx";
import { dateTime, shortId } from "../parts/format.ts";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { attempt } from "../parts/toasts.tsx";
import { useLoaded } from "../parts/use-loaded.ts";
import { useTitle } from "../parts/use-title.ts";
import { linkTo } from "../routing.ts";
import { connection } from "../state/connection.ts";
import { sessions } from "../state/sessions.ts";

function WorkspaceFiles(props: {
  readonly client: SandboxClient;
  readonly id: string;
}): JSX.Element {
  const { client, id } = props;
  const files = useMemo(() => client.workspaces.files(id), [client, id]);
  return <FileBrowser files={files} start="/" />;
}

const COLUMNS: readonly Column<WorkspaceInfo>[] = [
  { title: "Workspace", class: "mono", cell: ({ id }) => id },
  {
    title: "Used by",
    class: "links",
    cell: ({ sessions: users }) =>
      users.length === 0
        ? "no session"
        : users.map((session) => (
            <a key={session} class="mono" href={linkTo("sessions", session)}>
              {shortId(session)}
            </a>
          )),
  },
  { title: "Last used", cell: ({ lastUsedAt }) => dateTime(lastUsedAt) },
  { title: "Created", cell: ({ createdAt }) => dateTime(createdAt) },
];

export function WorkspacesPage(): JSX.Element {
  useTitle("Workspaces");
  const client = connection.value?.client;
  const [opened, setOpened] = useState<string | undefined>(undefined);
  const [deleting, setDeleting] = useState<string | undefined>(undefined);
  // Workspaces can be created by sessions, or released by them.
  const living = sessions.value.length;
  const { value, failure, reload } = useLoaded(
    async (signal) => (await client?.workspaces.list({ signal })) ?? [],
    [client, living],
  );
  const remove = (id: string): void => {
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
      {value === undefined && failure === undefined && <Loading />}
      {value?.length === 0 && (
        <Empty>
          No workspaces. Name one when you create a session: its files stay when the session ends.
        </Empty>
      )}
      {value !== undefined && value.length > 0 && (
        <Table
          items={value}
          keyOf={({ id }) => id}
          columns={COLUMNS}
          actions={({ id, sessions: users }) => (
            <>
              <button
                type="button"
                aria-pressed={id === opened}
                onClick={() => setOpened(id === opened ? undefined : id)}
              >
                Files
              </button>
              <button
                type="button"
                class="danger"
                disabled={users.length > 0}
                title={users.length > 0 ? "A session uses it." : undefined}
                onClick={() => setDeleting(id)}
              >
                Delete
              </button>
            </>
          )}
        />
      )}
      {opened !== undefined && client !== undefined && (
        <section class="tab" aria-label={`Files of ${opened}`}>
          <WorkspaceFiles key={opened} client={client} id={opened} />
        </section>
      )}
      {deleting !== undefined && (
        <Confirm
          title="Delete this workspace?"
          verb="Delete"
          onConfirm={() => remove(deleting)}
          onClose={() => setDeleting(undefined)}
        >
          All files in <span class="mono">{deleting}</span> are deleted.
        </Confirm>
      )}
    </div>
  );
}
