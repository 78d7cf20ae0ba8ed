/** The images that sandboxes are created from. */
import type { ImageInfo } from "@sandkasten/sdk";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { bytes, dateTime } from "../parts/format.ts";
import { Empty, Failure, Loading } from "../parts/notice.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { useLoaded } from "../parts/use-loaded.ts";
import { useTitle } from "../parts/use-title.ts";
import { connection } from "../state/connection.ts";
import { onEvent } from "../state/feed.ts";

const COLUMNS: readonly Column<ImageInfo>[] = [
  { title: "Image", class: "mono", cell: ({ reference }) => reference },
  { title: "Source", cell: ({ source }) => source },
  { title: "Size", class: "number", cell: ({ sizeBytes }) => bytes(sizeBytes) },
  { title: "Available to", cell: ({ shared }) => (shared === true ? "everyone" : "you") },
  { title: "Added", cell: ({ createdAt }) => dateTime(createdAt) },
  {
    title: "Digest",
    class: "mono muted",
    cell: ({ digest }) => <span title={digest}>{digest.slice(0, 19)}</span>,
  },
];

export function ImagesPage(): JSX.Element {
  useTitle("Images");
  const client = connection.value?.client;
  const { value, failure, reload } = useLoaded(
    async (signal) => (await client?.images.list({ signal })) ?? [],
    [client],
  );
  useEffect(() => onEvent(({ type }) => type.startsWith("image.") && reload()), [reload]);
  return (
    <div class="page scroll" tabIndex={0}>
      <div class="page-head">
        <h1>Images</h1>
      </div>
      <Failure of={failure} />
      {value === undefined && failure === undefined && <Loading />}
      {value?.length === 0 && (
        <Empty>
          No images. Pull one with <code>sandkasten image pull NAME</code>.
        </Empty>
      )}
      {value !== undefined && value.length > 0 && (
        <Table items={value} keyOf={({ reference }) => reference} columns={COLUMNS} />
      )}
    </div>
  );
}
