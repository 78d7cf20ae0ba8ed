/** The icons, in the colour of the adjacent text. */
import type { JSX } from "preact";

const PATHS = {
  sessions: "M3 5h14v4H3zM3 11h14v4H3zM5.500 7h.01M5.500 13h.01",
  overview: "M3 16V4M3 16h14M6.500 12.500l3-4 2.500 2 4-5.500",
  images: "M10 2.500l7 3.800v7.400l-7 3.800-7-3.800V6.300zM3 6.300l7 3.900 7-3.900M10 10.200v7.300",
  workspaces: "M2.500 5.500a1 1 0 0 1 1-1h4l2 2h7a1 1 0 0 1 1 1v7a1 1 0 0 1-1 1h-13a1 1 0 0 1-1-1z",
  runs: "M6.500 4.200v11.600l9-5.800z",
  plus: "M10 4v12M4 10h12",
  moon: "M16.500 11.800A7 7 0 0 1 8.200 3.500a7 7 0 1 0 8.300 8.300z",
  sun: "M10 13.500a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM10 2v1.500M10 16.500V18M2 10h1.500M16.500 10H18M4.300 4.300l1.100 1.100M14.600 14.600l1.100 1.100M4.300 15.700l1.100-1.100M14.600 5.400l1.100-1.100",
  leave: "M8 4H4.500a1 1 0 0 0-1 1v10a1 1 0 0 0 1 1H8M12.500 13.500L16 10l-3.500-3.500M16 10H7.500",
  upload: "M10 13V4M6.500 7.200L10 3.700l3.500 3.500M4 13v2.500a1 1 0 0 0 1 1h10a1 1 0 0 0 1-1V13",
  download:
    "M10 4v9M6.500 9.800L10 13.300l3.500-3.500M4 13v2.500a1 1 0 0 0 1 1h10a1 1 0 0 0 1-1V13",
  folder: "M2.500 5.500a1 1 0 0 1 1-1h4l2 2h7a1 1 0 0 1 1 1v7a1 1 0 0 1-1 1h-13a1 1 0 0 1-1-1z",
  file: "M5 2.500h6.500L15.500 6.500v10a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1v-13a1 1 0 0 1 1-1zM11.500 2.500v4h4",
  refresh: "M16 10a6 6 0 1 1-1.800-4.300M16 3.500v3.200h-3.200",
  external:
    "M8 4.500H4.500a1 1 0 0 0-1 1v10a1 1 0 0 0 1 1h10a1 1 0 0 0 1-1V12M11.500 3.500h5v5M16.500 3.500l-7 7",
  trash: "M4 5.500h12M8 5.500v-2h4v2M5.500 5.500l.7 11h7.600l.7-11",
  pause: "M7 4.500v11M13 4.500v11",
  copy: "M7.500 7.500h9v9h-9zM4.500 12.500h-1v-9h9v1",
  check: "M4 10.500l4 4 8-9",
  cross: "M5 5l10 10M15 5L5 15",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
