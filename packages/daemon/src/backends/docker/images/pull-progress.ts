/** Sums up a Docker engine's progress reports for the layers of a pull. */
import type { ImageProgress } from "../../../ports/image-store.ts";
import { invalidImage } from "../../../images/image-failure.ts";
import type { EngineEvent } from "./engine-events.ts";

interface Layer {
  /** Transferred size; undefined until the engine has started the layer. */
  totalBytes: number | undefined;
  fetchedBytes: number;
  unpackedBytes: number;
  isFetched: boolean;
}

/**
 * The engine unpacks one layer while it downloads the next. Here downloading comes first and
 * unpacking, including what is already unpacked, after it, so a progress bar never moves back. The
 * total is reported once the sizes of all layers are known, and stays: the engine reports a size
 * when it starts to download, or for a very quick download when it starts to unpack.
 */
export class PullProgress {
  readonly #layers = new Map<string, Layer>();
  readonly #reportProgress: (progress: ImageProgress) => void;
  readonly #maxBytes: number;
  #last: ImageProgress = { phase: "download", done: 0 };

  /** @param maxBytes - The maximum size of the download. */
  constructor(tell: (progress: ImageProgress) => void, maxBytes: number) {
    this.#reportProgress = tell;
    this.#maxBytes = maxBytes;
  }

  /** Rejects with INVALID_IMAGE if the image is too large. */
  take({ status, id, current, total }: EngineEvent): void {
    if (id === undefined || !this.#isOfLayer(id, status)) return;
    const layer = this.#layer(id);
    if (status === "Downloading") {
      layer.totalBytes ??= total;
      // A download that the engine restarts does not reduce the reported progress.
      layer.fetchedBytes = Math.max(layer.fetchedBytes, current ?? 0);
    } else if (status === "Extracting") {
      layer.totalBytes ??= total;
      layer.isFetched = true;
      layer.unpackedBytes = Math.max(layer.unpackedBytes, current ?? 0);
    } else if (status === "Download complete" || status === "Pull complete") {
      layer.isFetched = true;
      // For a small layer the engine may only report its end.
      if (status === "Pull complete") layer.unpackedBytes = layer.totalBytes ??= layer.fetchedBytes;
    }
    if (layer.isFetched) layer.fetchedBytes = layer.totalBytes ?? layer.fetchedBytes;
    this.#checkSize();
    this.#report();
  }

  /** Layers that already exist are not counted, nor are messages about the whole image. */
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
   * SECURITY: a huge image must not fill the engine's disk (threat: filling a disk); only the
   * engine knows a layer's unpacked size, and only when it is too late. Guarded by
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
    this.#reportProgress(progress);
  }

  #sum(bytesOf: (layer: Layer) => number): number {
    return this.#layers.values().reduce((sum, layer) => sum + bytesOf(layer), 0);
  }
}
