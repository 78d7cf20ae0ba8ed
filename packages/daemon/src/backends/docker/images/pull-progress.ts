/** Adds up what a Docker engine tells of each layer of a pull. */
import type { ImageProgress } from "../../../ports/image-store.ts";
import { invalidImage } from "../../../images/image-failure.ts";
import type { EngineEvent } from "./engine-events.ts";

interface Layer {
  /** Bytes as they are transferred; undefined until the engine has begun with it. */
  totalBytes: number | undefined;
  fetchedBytes: number;
  unpackedBytes: number;
  isFetched: boolean;
}

/**
 * The engine unpacks one layer while it fetches the next. Here fetching comes first and unpacking,
 * with what is unpacked already, after it, so that a bar never goes back. A total is told from when
 * the sizes of all layers are known, and stays: the engine tells of a size when it begins to fetch,
 * or, if that is over in no time, to unpack.
 */
export class PullProgress {
  readonly #layers = new Map<string, Layer>();
  readonly #tell: (progress: ImageProgress) => void;
  readonly #maxBytes: number;
  #last: ImageProgress = { phase: "download", done: 0 };

  /** @param maxBytes - More than this is not downloaded. */
  constructor(tell: (progress: ImageProgress) => void, maxBytes: number) {
    this.#tell = tell;
    this.#maxBytes = maxBytes;
  }

  /** Rejects with INVALID_IMAGE when the image is too large. */
  take({ status, id, current, total }: EngineEvent): void {
    if (id === undefined || !this.#isOfLayer(id, status)) return;
    const layer = this.#layer(id);
    if (status === "Downloading") {
      layer.totalBytes ??= total;
      // A download that the engine begins anew does not take away what was told.
      layer.fetchedBytes = Math.max(layer.fetchedBytes, current ?? 0);
    } else if (status === "Extracting") {
      layer.totalBytes ??= total;
      layer.isFetched = true;
      layer.unpackedBytes = Math.max(layer.unpackedBytes, current ?? 0);
    } else if (status === "Download complete" || status === "Pull complete") {
      layer.isFetched = true;
      // Of a small layer the engine may say nothing but its end.
      if (status === "Pull complete") layer.unpackedBytes = layer.totalBytes ??= layer.fetchedBytes;
    }
    if (layer.isFetched) layer.fetchedBytes = layer.totalBytes ?? layer.fetchedBytes;
    this.#checkSize();
    this.#report();
  }

  /** What is there already costs nothing and is not counted; nor is what is said of the whole. */
  #isOfLayer(id: string, status: string): boolean {
    return this.#layers.has(id) || status === "Pulling fs layer";
  }

  #layer(id: string): Layer {
    const known = this.#layers.get(id);
    if (known !== undefined) return known;
    const layer = { totalBytes: undefined, fetchedBytes: 0, unpackedBytes: 0, isFetched: false };
    this.#layers.set(id, layer);
    return layer;
  }

  /**
   * SECURITY: an image of any size must not fill the engine's disk (threat: filling a disk); what a
   * layer unpacks to is only known to the engine, and when it is too late. Guarded by
   * docker-pulls.test.ts.
   */
  #checkSize(): void {
    const knownBytes = this.#sum(({ totalBytes }) => totalBytes ?? 0);
    if (knownBytes > this.#maxBytes)
      throw invalidImage(
        `The download of the image has at least ${knownBytes} bytes; the limit is ${this.#maxBytes}.`,
      );
  }

  #report(): void {
    const layers = [...this.#layers.values()];
    const isFetched = this.#last.phase === "unpack" || layers.every((layer) => layer.isFetched);
    const isSized = layers.every((layer) => layer.totalBytes !== undefined);
    const done = this.#sum((layer) => (isFetched ? layer.unpackedBytes : layer.fetchedBytes));
    const progress: ImageProgress = {
      phase: isFetched ? "unpack" : "download",
      done,
      ...(isSized && { total: this.#sum(({ totalBytes }) => totalBytes ?? 0) }),
    };
    const { phase, done: lastDone, total } = this.#last;
    if (progress.phase === phase && done === lastDone && progress.total === total) return;
    this.#last = progress;
    this.#tell(progress);
  }

  #sum(bytesOf: (layer: Layer) => number): number {
    return this.#layers.values().reduce((sum, layer) => sum + bytesOf(layer), 0);
  }
}
