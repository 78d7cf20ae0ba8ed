/* Starts the API reference. Nothing that it shows or sends leaves this origin. */
globalThis.Scalar.createApiReference("#reference", {
  url: "openapi.json",
  // The daemon that serves the page, without a proxy.
  servers: [{ url: location.origin, description: "This daemon" }],
  // SECURITY: the key stays in memory; a reload forgets it. Guarded by tests/e2e/site.test.ts.
  persistAuth: false,
  authentication: { preferredSecurityScheme: "bearer" },
  // Only the document's samples: they use the clients of this project.
  hiddenClients: true,
  withDefaultFonts: false,
  telemetry: false,
  hideClientButton: true,
  showDeveloperTools: "never",
  agent: { disabled: true },
  mcp: { disabled: true },
  metaData: { title: "Sandkasten API reference" },
});
