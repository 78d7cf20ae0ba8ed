/** Data that must be fetched before it can be shown. */
import { useCallback, useEffect, useState } from "preact/hooks";

export interface Loaded<Value> {
  readonly value: Value | undefined;
  readonly failure: unknown;
  /** Fetches again; the previous value stays until then. */
  readonly reload: () => void;
}

/** @param load - Called again whenever one of `inputs` changes. */
export function useLoaded<Value>(
  load: (signal: AbortSignal) => Promise<Value>,
  inputs: readonly unknown[],
): Loaded<Value> {
  const [state, setState] = useState<{ value?: Value; failure?: unknown }>({});
  const [round, setRound] = useState(0);
  useEffect(() => {
    const left = new AbortController();
    load(left.signal).then(
      (value) => !left.signal.aborted && setState({ value }),
      (failure: unknown) => !left.signal.aborted && setState((old) => ({ ...old, failure })),
    );
    return () => left.abort();
  }, [...inputs, round]);
  const reload = useCallback(() => setRound((count) => count + 1), []);
  return { value: state.value, failure: state.failure, reload };
}
