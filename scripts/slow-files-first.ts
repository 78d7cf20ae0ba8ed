/** Puts test files that are known to take long at the front, so that no processor idles at the end. */
import { BaseSequencer, type TestSpecification, type Vitest } from "vitest/node";

type SequencerClass = new (vitest: Vitest) => BaseSequencer;

/**
 * Without results of an earlier run, vitest takes the size of a file for its duration, and a short
 * file can run a long suite. Files of one project stay together, because they share workers.
 */
export function slowFilesFirst(isSlow: (path: string) => boolean): SequencerClass {
  return class extends BaseSequencer {
    override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
      return slowFirst(
        await super.sort(files),
        ({ project }) => project.name,
        ({ moduleId }) => isSlow(moduleId),
      );
    }
  };
}

/** Moves what is slow to the front of its group; the groups and the others keep their order. */
export function slowFirst<T>(
  sorted: readonly T[],
  groupOf: (item: T) => string,
  isSlow: (item: T) => boolean,
): T[] {
  return [...Map.groupBy(sorted, groupOf).values()].flatMap((group) => [
    ...group.filter(isSlow),
    ...group.filter((item) => !isSlow(item)),
  ]);
}
