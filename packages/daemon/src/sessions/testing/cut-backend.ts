import { SandboxError } from "@sandkasten/protocol";
import type { Backend } from "../../ports/backend.ts";

/** A backend whose connection to its machine can be cut. */
export class CutBackend {
  isCut = false;
  readonly backend: Backend;

  constructor(backend: Backend) {
    this.backend = new Proxy(backend, {
      get: (target, name) => {
        const own: unknown = Reflect.get(target, name, target);
        if (typeof own !== "function") return own;
        if (name === "reachable") return () => Promise.resolve(!this.isCut);
        return async (...args: unknown[]): Promise<unknown> => {
          if (this.isCut) throw new SandboxError("ENGINE_UNREACHABLE", "the engine is away");
          return await (own as (...given: unknown[]) => unknown).apply(target, args);
        };
      },
    });
  }
}
