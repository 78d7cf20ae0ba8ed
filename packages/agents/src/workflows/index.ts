/**
 * Workflows: files that define which agents do what in which order, and the engine that runs them.
 */
import type { ServicePart, ServicePartDeps, ServicePartFactory } from "../service/service-part.ts";
import { WorkflowCatalogue } from "./catalogue.ts";
import { WORKFLOW_MIGRATIONS } from "./engine/migrations.ts";
import { WorkflowEngine } from "./engine/workflow-engine.ts";
import { workflowRoutes } from "./routes.ts";

/** The part of the agent service that runs `DIR/workflows/*.yaml`. */
export const workflowPart: ServicePartFactory = {
  migrations: WORKFLOW_MIGRATIONS,
  create(deps: ServicePartDeps): ServicePart {
    const { database, events, executor, client, dir, processes, log, stopping } = deps;
    const catalogue = new WorkflowCatalogue({ dir, hasAgent: (name) => executor.has(name) });
    const engine = new WorkflowEngine({
      database,
      events,
      executor,
      client,
      processes,
      log,
      leaseSeconds: deps.leaseSeconds,
      onlyOwnRuns: deps.isTransient,
      retentionDays: deps.retentionDays,
    });
    return {
      routes: workflowRoutes({ catalogue, engine, events, stopping }),
      start: async () => {
        engine.start();
        await Promise.resolve();
      },
      close: async () => await engine.close(),
    };
  },
};
