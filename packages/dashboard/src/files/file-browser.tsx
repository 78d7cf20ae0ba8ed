/** Directories and files, of a session or of a workspace. */
import type { FileEntry, Files } from "@sandkasten/sdk";
import type { JSX, TargetedDragEvent } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { bytes, dateTime } from "../parts/format.ts";
import { Icon } from "../parts/icons.tsx";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { attempt } from "../parts/toasts.tsx";
import { useLoaded } from "../parts/use-loaded.ts";
import { onEvent } from "../state/feed.ts";
import { type Draft, FileView } from "./file-view.tsx";
import { saveFile } from "./save-file.ts";

/** More would make the page slow; the terminal shows the rest. */
const MOST_ENTRIES = 5000;

export interface FileBrowserProps {
  readonly files: Files;
  /** The initial directory. */
  readonly start: string;
  /** Changes to this session's files are shown as they happen. */
  readonly sessionId?: string;
}

/** Kept while another tab is open. */
const allDrafts = new WeakMap<Files, Map<string, Draft>>();

function draftsOf(files: Files): Map<string, Draft> {
  const known = allDrafts.get(files) ?? new Map<string, Draft>();
  allDrafts.set(files, known);
  return known;
}

export function FileBrowser({ files, start, sessionId }: FileBrowserProps): JSX.Element {
  const [directory, setDirectory] = useState(start);
  const [opened, setOpened] = useState<FileEntry | undefined>(undefined);
  const [isDragged, setDragged] = useState(false);
  const drafts = draftsOf(files);
  const picker = useRef<HTMLInputElement>(null);
  const listed = useLoaded((signal) => entriesOf(files, directory, signal), [files, directory]);
  useEffect(
    () =>
      onEvent((event) => {
        const isOurs = sessionId !== undefined && event.sessionId === sessionId;
        if (isOurs && ["file.changed", "exec.ended"].includes(event.type)) listed.reload();
      }),
    [sessionId, listed.reload],
  );
  const upload = (chosen: FileList | null): void => {
    if (chosen === null || chosen.length === 0) return;
    const all = [...chosen];
    attempt(
      async () => {
        await files.uploadAll(directory, all);
        listed.reload();
      },
      all.length === 1 ? `${all[0]?.name} is uploaded.` : `${all.length} files are uploaded.`,
    );
  };
  const drop = (event: TargetedDragEvent<HTMLDivElement>): void => {
    event.preventDefault();
    setDragged(false);
    upload(event.dataTransfer?.files ?? null);
  };
  return (
    <div
      class={`files ${opened === undefined ? "" : "with-view"} ${isDragged ? "dragged" : ""}`}
      onDragOver={(event) => {
        event.preventDefault();
        setDragged(true);
      }}
      onDragLeave={() => setDragged(false)}
      onDrop={drop}
    >
      <div class="files-list">
        <div class="files-bar">
          <Crumbs path={directory} onOpen={setDirectory} />
          <button type="button" class="plain" onClick={listed.reload} aria-label="Refresh">
            <Icon name="refresh" />
          </button>
          <input
            ref={picker}
            type="file"
            multiple
            hidden
            data-testid="upload"
            onChange={({ currentTarget }) => {
              upload(currentTarget.files);
              currentTarget.value = "";
            }}
          />
          <button type="button" onClick={() => picker.current?.click()}>
            <Icon name="upload" /> Upload
          </button>
        </div>
        <Failure of={listed.failure} />
        {listed.value === undefined && listed.failure === undefined && <Loading />}
        {listed.value?.length === 0 && (
          <Empty>This directory is empty. Drop files here to upload them.</Empty>
        )}
        <ul class="entries scroll">
          {listed.value?.map((entry) => (
            <Entry
              key={entry.path}
              entry={entry}
              isOpen={opened?.path === entry.path}
              onOpen={() => (entry.isDir ? setDirectory(entry.path) : setOpened(entry))}
              onDownload={() => attempt(() => saveFile(files, entry))}
            />
          ))}
        </ul>
      </div>
      {opened !== undefined && (
        <FileView
          key={opened.path}
          files={files}
          entry={opened}
          drafts={drafts}
          onClose={() => setOpened(undefined)}
          onDeleted={() => {
            setOpened(undefined);
            listed.reload();
          }}
        />
      )}
    </div>
  );
}

function Crumbs(props: {
  readonly path: string;
  readonly onOpen: (path: string) => void;
}): JSX.Element {
  const parts = props.path.split("/").filter((part) => part !== "");
  const crumbs = [
    { name: "/", path: "/" },
    ...parts.map((name, index) => ({ name, path: `/${parts.slice(0, index + 1).join("/")}` })),
  ];
  return (
    <nav class="crumbs" aria-label="Directory">
      {crumbs.map(({ name, path }) => (
        <button
          key={path}
          type="button"
          class="plain mono"
          aria-current={path === props.path ? "true" : undefined}
          onClick={() => props.onOpen(path)}
        >
          {name}
        </button>
      ))}
    </nav>
  );
}

interface EntryProps {
  readonly entry: FileEntry;
  readonly isOpen: boolean;
  readonly onOpen: () => void;
  readonly onDownload: () => void;
}

function Entry({ entry, isOpen, onOpen, onDownload }: EntryProps): JSX.Element {
  const { name, isDir, sizeBytes, mtimeUnix, target } = entry;
  return (
    <li class={isOpen ? "open" : ""}>
      <button type="button" class="entry plain" onClick={onOpen} aria-pressed={isOpen}>
        <Icon name={isDir ? "folder" : "file"} />
        <span class="entry-name">
          {name}
          {target !== undefined && <span class="muted"> → {target}</span>}
        </span>
        <span class="number muted">{isDir ? "" : bytes(sizeBytes)}</span>
        <span class="muted entry-time">{dateTime(new Date(mtimeUnix * 1000).toISOString())}</span>
      </button>
      {!isDir && (
        <button type="button" class="plain" aria-label={`Download ${name}`} onClick={onDownload}>
          <Icon name="download" />
        </button>
      )}
    </li>
  );
}

async function entriesOf(
  files: Files,
  directory: string,
  signal: AbortSignal,
): Promise<readonly FileEntry[]> {
  const entries: FileEntry[] = [];
  for await (const entry of files.list(directory, { signal })) {
    entries.push(entry);
    if (entries.length === MOST_ENTRIES) break;
  }
  return entries.toSorted(
    (one, other) => Number(other.isDir) - Number(one.isDir) || one.name.localeCompare(other.name),
  );
}
