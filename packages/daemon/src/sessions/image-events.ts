/** Emits events when images are added and removed. */
import type { Events } from "../events/recorder.ts";
import type { ImageInfo, Images } from "../ports/image-store.ts";

export interface ImageEvents {
  readonly owner: string;
  readonly backend: string;
  readonly events: Events;
}

export function recordingImages(images: Images, { owner, backend, events }: ImageEvents): Images {
  const added = async (adding: Promise<ImageInfo>): Promise<ImageInfo> => {
    const image = await adding;
    const { reference, digest, source } = image;
    events.record({ type: "image.added", owner, data: { reference, digest, source, backend } });
    return image;
  };
  return {
    resolve: (name) => images.resolve(name),
    ensure: (reference, options) => images.ensure(reference, options),
    list: () => images.list(),
    inspect: (reference) => images.inspect(reference),
    importRootfs: (...args) => added(images.importRootfs(...args)),
    importOciArchive: (...args) => added(images.importOciArchive(...args)),
    pull: (...args) => added(images.pull(...args)),
    remove: async (reference) => {
      await images.remove(reference);
      events.record({ type: "image.removed", owner, data: { reference, backend } });
    },
  };
}

export function recordCollected(
  events: Events,
  backend: string,
  { removed, freedBytes }: { readonly removed: number; readonly freedBytes: number },
): void {
  if (removed === 0) return;
  const data = { backend, removed, freed_bytes: freedBytes };
  events.record({ type: "image.collected", owner: "", data });
}
