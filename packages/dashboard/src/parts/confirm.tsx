/** Asks before something is deleted. */
import type { ComponentChildren, JSX } from "preact";
import { Dialog } from "./dialog.tsx";

export interface ConfirmProps {
  readonly title: string;
  /** The label of the button that deletes. */
  readonly verb: string;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

export function Confirm(props: ConfirmProps): JSX.Element {
  const { title, verb, onConfirm, onClose, children } = props;
  return (
    <Dialog title={title} onClose={onClose}>
      <p>{children}</p>
      <div class="dialog-buttons">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button
          type="button"
          class="danger"
          onClick={() => {
            onClose();
            onConfirm();
          }}
        >
          {verb}
        </button>
      </div>
    </Dialog>
  );
}
