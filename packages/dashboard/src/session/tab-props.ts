/** The properties of every tab of a session. */
import type { Session, SessionInfo } from "@sandkasten/sdk";

export interface TabProps {
  readonly session: Session;
  readonly info: SessionInfo;
}
