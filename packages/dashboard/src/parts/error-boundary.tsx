/** Shows what went wrong in a page instead of an empty one. */
import { Component, type ComponentChildren } from "preact";
import { Failure } from "./notice.tsx";

interface State {
  readonly failure?: unknown;
}

export class ErrorBoundary extends Component<{ readonly children: ComponentChildren }, State> {
  override state: State = {};

  static override getDerivedStateFromError(failure: unknown): State {
    return { failure };
  }

  override render(): ComponentChildren {
    const { failure } = this.state;
    if (failure === undefined) return this.props.children;
    return (
      <div class="page">
        <Failure of={failure} />
        <p>
          The daemon may have been updated since this page was loaded. Reload the page and sign in
          again.
        </p>
        <div>
          <button type="button" class="primary" onClick={() => location.reload()}>
            Reload
          </button>
        </div>
      </div>
    );
  }
}
