/** A promise that is settled from outside. */

export interface Deferred<Value> {
  readonly promise: Promise<Value>;
  readonly resolve: (value: Value) => void;
  readonly reject: (reason: unknown) => void;
}

/** Like `Promise.withResolvers`, which Node 20 does not have. */
export function deferred<Value>(): Deferred<Value> {
  let resolve: Deferred<Value>["resolve"] = () => undefined;
  let reject: Deferred<Value>["reject"] = () => undefined;
  const promise = new Promise<Value>((take, refuse) => {
    resolve = take;
    reject = refuse;
  });
  return { promise, resolve, reject };
}
