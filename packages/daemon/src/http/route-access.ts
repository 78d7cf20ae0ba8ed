/** Who may use a route. */

/**
 * `open` needs no key; `browser` also takes the key as password of HTTP Basic; `socket` also as a
 * subprotocol; `preview` also takes a link to one port.
 */
export type RouteAccess = "open" | "browser" | "socket" | "preview";
