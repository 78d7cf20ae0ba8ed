/** The images that sandboxes are made of. */
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { bytes, dateTime } from "../parts/format.ts";
import { Empty, Failure } from "../parts/notice.tsx";
import { useLoaded } from "../parts/use-loaded.ts";
import { connection } from "../state/connection.ts";
import { onEvent } from "../state/feed.ts";

export function ImagesPage(): JSX.Element {
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
      {value?.length === 0 && (
        <Empty>
          No images. Pull one with <code>sandkasten image pull NAME</code>.
        </Empty>
      )}
      {value !== undefined && value.length > 0 && (
        <table class="plain-table">
          <thead>
            <tr>
              {["Image", "Source", "Size", "For", "Added", "Digest"].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {value.map(({ reference, source, sizeBytes, shared, createdAt, digest }) => (
              <tr key={reference}>
                <th scope="row" class="mono">
                  {reference}
                </th>
                <td>{source}</td>
                <td class="number">{bytes(sizeBytes)}</td>
                <td>{shared === true ? "everyone" : "you"}</td>
                <td>{dateTime(createdAt)}</td>
                <td class="mono muted" title={digest}>
                  {digest.slice(0, 19)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}
