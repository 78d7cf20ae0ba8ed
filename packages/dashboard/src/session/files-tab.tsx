/** The files of a session: browse, upload, download, view and edit. */
import type { JSX } from "preact";
import { FileBrowser } from "../files/file-browser.tsx";
import type { TabProps } from "./tab-props.ts";

export function FilesTab({ session }: TabProps): JSX.Element {
  return <FileBrowser files={session.files} start="/workspace" sessionId={session.id} />;
}
