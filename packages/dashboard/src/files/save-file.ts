/** Saves a file of a sandbox on the visitor's machine. */
import type { FileEntry, Files } from "@sandkasten/sdk";

export async function saveFile(files: Files, entry: FileEntry): Promise<void> {
  const stream = await files.download(entry);
  const blob = await new Response(stream).blob();
  // SECURITY: as bytes to be saved, never as a page of this origin (threat: hostile previews).
  const url = URL.createObjectURL(new Blob([blob], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = entry.name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
