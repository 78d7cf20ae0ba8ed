/** The keys below `journal` and `events`: what is kept of output and events. */
import { wholeNumber } from "../kinds.ts";
import { MIB, GIB, DAY_SECONDS, YEAR_SECONDS, bytes, group } from "./units.ts";

export const journal = group({
  max_bytes_per_exec: bytes(65_536)
    .default(256 * MIB)
    .meta({
      description: "Output that is kept per command; beyond it, the middle is dropped",
    }),
  max_bytes_per_session: bytes(65_536).default(GIB).meta({
    description: "Output that is kept per session",
  }),
  max_bytes_per_key: bytes(65_536)
    .default(8 * GIB)
    .meta({
      description:
        "Output that is kept per API key; beyond it, the output of ended sessions is deleted, oldest first",
    }),
  max_bytes: bytes(65_536)
    .default(32 * GIB)
    .meta({
      description: "The same for all API keys together",
    }),
  retention_seconds: wholeNumber(0, YEAR_SECONDS).default(DAY_SECONDS).meta({
    description: "How long output is kept after its session has ended",
  }),
});

export const events = group({
  retention_seconds: wholeNumber(0, YEAR_SECONDS).default(DAY_SECONDS).meta({
    description: "How long events are stored",
  }),
  max_events_per_key: wholeNumber(100, 10_000_000).default(20_000).meta({
    description:
      "Events that are stored per key; beyond it, the oldest events of that key are deleted",
  }),
  max_events: wholeNumber(1000, 100_000_000).default(200_000).meta({
    description:
      "Events that are stored in total; beyond it, the oldest events of the key with the most events are deleted",
  }),
  max_bytes: bytes(65_536)
    .default(64 * MIB)
    .meta({ description: "Maximum disk space for all events" }),
  max_streams_per_key: wholeNumber(1, 100_000).default(64).meta({
    description: "Open event streams per key",
  }),
  max_streams: wholeNumber(1, 100_000).default(1024).meta({
    description: "The same for all keys together",
  }),
});
