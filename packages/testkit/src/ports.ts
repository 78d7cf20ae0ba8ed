/** The ports that the suites test. Types only: the testkit runs no daemon code. */
export type * from "@sandkasten/daemon";
