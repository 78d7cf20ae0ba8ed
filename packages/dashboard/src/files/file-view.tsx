/** One file: its text to read and edit, or its picture. */
import { type FileEntry, type Files, SandboxError } from "@sandkasten/sdk";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Confirm } from "../parts/confirm.tsx";
import { bytes, messageOf } from "../parts/format.ts";
import { Icon } from "../parts/icons.tsx";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { attempt } from "../parts/toasts.tsx";
import { useLoaded } from "../parts/use-loaded.ts";
import { saveFile } from "./save-file.ts";

const MOST_TEXT_BYTES = 1024 * 1024;
const MOST_PICTURE_BYTES = 10 * 1024 * 1024;
const PICTURES: Readonly<Record<string, string>> = {
  gif: "image/gif",
  jpeg: "image/jpeg",
  jpg: "image/jpeg",
  png: "image/png",
  svg: "image/svg+xml",
  webp: "image/webp",
};

/** An unsaved text, and the version that it was edited from. */
export interface Draft {
  readonly text: string;
  readonly saved: string;
  readonly etag: string;
}

export interface FileViewProps {
  readonly files: Files;
  readonly entry: FileEntry;
  /** By path, so that viewing another file loses nothing. */
  readonly drafts: Map<string, Draft>;
  readonly onClose: () => void;
  readonly onDeleted: () => void;
}

type Content =
  | { readonly kind: "text"; readonly text: string; readonly etag: string }
  | { readonly kind: "picture"; readonly url: string }
  | { readonly kind: "other"; readonly why: string };

export function FileView(props: FileViewProps): JSX.Element {
  const { files, entry, drafts, onClose, onDeleted } = props;
  const [isDeleting, setDeleting] = useState(false);
  const {
    value: content,
    failure,
    reload,
  } = useLoaded((signal) => contentOf(files, entry, signal), [files, entry.path]);
  useEffect(() => {
    if (content?.kind !== "picture") return undefined;
    return () => URL.revokeObjectURL(content.url);
  }, [content]);
  const remove = (): void =>
    attempt(async () => {
      await files.remove(entry);
      drafts.delete(entry.path);
      onDeleted();
    }, `${entry.name} is deleted.`);
  return (
    <div class="file-view">
      <div class="files-bar">
        <span class="file-title mono" title={entry.path}>
          {entry.name}
        </span>
        <button type="button" onClick={() => attempt(() => saveFile(files, entry))}>
          <Icon name="download" /> Download
        </button>
        <button
          type="button"
          class="plain"
          onClick={() => setDeleting(true)}
          aria-label={`Delete ${entry.name}`}
        >
          <Icon name="trash" />
        </button>
        <button type="button" class="plain" onClick={onClose} aria-label="Close the file">
          <Icon name="cross" />
        </button>
      </div>
      {isDeleting && (
        <Confirm
          title="Delete this file?"
          verb="Delete"
          onConfirm={remove}
          onClose={() => setDeleting(false)}
        >
          <span class="mono">{entry.path}</span> is deleted.
        </Confirm>
      )}
      <Failure of={failure} />
      {content === undefined && failure === undefined && <Loading />}
      {content?.kind === "text" && (
        <Editor
          key={content.etag}
          files={files}
          entry={entry}
          drafts={drafts}
          content={content}
          onReload={() => {
            drafts.delete(entry.path);
            reload();
          }}
        />
      )}
      {content?.kind === "picture" && <Picture url={content.url} name={entry.name} />}
      {content?.kind === "other" && <Empty>{content.why}</Empty>}
    </div>
  );
}

function Picture(props: { readonly url: string; readonly name: string }): JSX.Element {
  const [isBroken, setBroken] = useState(false);
  if (isBroken) return <Empty>The browser cannot show this picture. Download the file.</Empty>;
  return <img class="picture" src={props.url} alt={props.name} onError={() => setBroken(true)} />;
}

interface EditorProps {
  readonly files: Files;
  readonly entry: FileEntry;
  readonly drafts: FileViewProps["drafts"];
  readonly content: Content & { readonly kind: "text" };
  readonly onReload: () => void;
}

function Editor({ files, entry, drafts, content, onReload }: EditorProps): JSX.Element {
  const draft = drafts.get(entry.path);
  const [text, setText] = useState(draft?.text ?? content.text);
  const [etag, setEtag] = useState(draft?.etag ?? content.etag);
  const [saved, setSaved] = useState(draft?.saved ?? content.text);
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const isChanged = text !== saved;
  useEffect(() => {
    if (isChanged) drafts.set(entry.path, { text, saved, etag });
    else drafts.delete(entry.path);
  }, [text, saved, etag]);
  const save = (): void => {
    setProblem(undefined);
    files.write(entry, text, { ifMatch: etag }).then(
      (written) => {
        setEtag(written.etag);
        setSaved(text);
      },
      (error: unknown) =>
        setProblem(
          error instanceof SandboxError && error.code === "FILE_CHANGED"
            ? "The file has changed in the sandbox since it was read."
            : messageOf(error),
        ),
    );
  };
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      <textarea
        class="mono"
        aria-label={`Content of ${entry.name}`}
        spellcheck={false}
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "s" || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          save();
        }}
      />
      <div class="editor-bar">
        {problem === undefined ? (
          <span class="muted" role="status">
            {isChanged ? "Unsaved changes" : "Saved"}
          </span>
        ) : (
          <span class="failure" role="alert">
            {problem}
            <button type="button" onClick={onReload}>
              Discard my changes
            </button>
          </span>
        )}
        <button type="submit" class="primary" disabled={!isChanged}>
          Save
        </button>
      </div>
    </form>
  );
}

async function contentOf(files: Files, entry: FileEntry, signal: AbortSignal): Promise<Content> {
  const { etag, sizeBytes, type } = await files.stat(entry, { follow: true, signal });
  if (type !== "file") return { kind: "other", why: "This is not a regular file." };
  const picture = PICTURES[entry.name.split(".").at(-1)?.toLowerCase() ?? ""];
  if (picture !== undefined && sizeBytes <= MOST_PICTURE_BYTES) {
    const content = new Uint8Array(await files.read(entry, { signal }));
    return { kind: "picture", url: URL.createObjectURL(new Blob([content], { type: picture })) };
  }
  if (sizeBytes > MOST_TEXT_BYTES)
    return { kind: "other", why: `${bytes(sizeBytes)} are too much to show. Download the file.` };
  const content = await files.read(entry, { signal });
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
    // A text area would change these bytes.
    if (!/[\0\r]/.test(text)) return { kind: "text", text, etag };
  } catch {
    // It is not text.
  }
  return { kind: "other", why: "The file is not plain text. Download it to see it." };
}
