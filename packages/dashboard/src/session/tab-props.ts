/** What every tab of a session gets. */
import type { Session, SessionInfo } from "@sandkasten/sdk";

export interface TabProps {
  readonly session: Session;
  readonly info: SessionInfo;
}
