/** The header in which a daemon says for whom it forwards a request. It goes to daemons only. */
export const PEER_HEADER = "x-sandkasten-peer";
