/** The keys below `images`. */
import { DEFAULT_MAX_TOTAL_BYTES } from "../../images/local-image-store.ts";
import { DEFAULT_REGISTRIES } from "../../images/registry-policy.ts";
import { DEFAULT_UNPACK_LIMITS } from "../../images/unpack-budget.ts";
import { absolutePath, hostAndPort, listOf, registryName, wholeNumber, yesOrNo } from "../kinds.ts";
import { MIB, DAY_SECONDS, bytes, group } from "./units.ts";

export const images = group({
  registries: listOf(registryName())
    .default([...DEFAULT_REGISTRIES])
    .meta({
      description:
        "Registries that images can be pulled from, as `host` or `host:port`; `*` allows all that have a public address. A registry with a private address must be listed by name, and a registry on this machine by its address, as in `127.0.0.1:5000`",
    }),
  insecure_registries: listOf(hostAndPort()).default([]).meta({
    description:
      "Registries (`host:port`) that are used without TLS; they need no entry in `images.registries`",
  }),
  credentials_file: absolutePath().optional().meta({
    description:
      "The file with the credentials for registries on the backend `oci`, in the form of Docker's `config.json`",
    unset: "`/run/containers/UID/auth.json`",
  }),
  require_digests: yesOrNo().default(false).meta({
    description: "Whether images can only be pulled by digest, as in `name@sha256:…`",
  }),
  pull_timeout_seconds: wholeNumber(1, DAY_SECONDS).default(1800).meta({
    description: "Timeout for downloading an image",
  }),
  max_unpacked_bytes: bytes(MIB).default(DEFAULT_UNPACK_LIMITS.totalBytes).meta({
    description: "Size of one image after decompression",
  }),
  max_archive_bytes: bytes(MIB).default(DEFAULT_UNPACK_LIMITS.archiveBytes).meta({
    description: "Size of a download or an archive before decompression",
  }),
  max_file_bytes: bytes(MIB).default(DEFAULT_UNPACK_LIMITS.fileBytes).meta({
    description: "Size of one file in an image",
  }),
  max_entries: wholeNumber(1, 100_000_000).default(DEFAULT_UNPACK_LIMITS.entries).meta({
    description: "Files and directories of one image, all layers together",
  }),
  max_compression_ratio: wholeNumber(1, 100_000)
    .default(DEFAULT_UNPACK_LIMITS.compressionRatio)
    .meta({
      description:
        "Maximum ratio of an image's unpacked size to its archive, beyond the first 64 MiB",
    }),
  max_total_bytes: bytes(MIB).default(DEFAULT_MAX_TOTAL_BYTES).meta({
    description: "Disk space of all images together, on the backend `oci`",
  }),
  max_layers: wholeNumber(1, 1000).default(DEFAULT_UNPACK_LIMITS.layers).meta({
    description: "Layers of one image",
  }),
});
