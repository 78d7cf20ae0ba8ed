/** The ports that the suites are about. Types only: the testkit runs nothing of the daemon. */
export type * from "@sandkasten/daemon";
