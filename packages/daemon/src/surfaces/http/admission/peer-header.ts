/** The header in which a daemon names the caller of a forwarded request. It is only sent to daemons. */
export const PEER_HEADER = "x-sandkasten-peer";
