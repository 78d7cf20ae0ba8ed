/** Asks for the key. */
import type { JSX, TargetedSubmitEvent } from "preact";
import { useState } from "preact/hooks";
import { textIn } from "../parts/form-text.ts";
import { messageOf } from "../parts/format.ts";
import { signedOutBecause, signIn } from "../state/connection.ts";
import icon from "../icon.svg";

export function SignIn(): JSX.Element {
  const [failure, setFailure] = useState<string | undefined>(undefined);
  const [isBusy, setBusy] = useState(false);
  const submit = (event: TargetedSubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const key = textIn(event.currentTarget, "key");
    setBusy(true);
    signIn(key).catch((error: unknown) => {
      setFailure(messageOf(error));
      setBusy(false);
    });
  };
  const problem = failure ?? signedOutBecause.value;
  return (
    <main class="sign-in">
      <form class="card" onSubmit={submit}>
        <img src={icon} alt="" width="44" height="44" />
        <h1>Sandkasten</h1>
        <p class="muted">Sign in with an API key of this daemon.</p>
        {/* So that password managers know what the key belongs to. */}
        <input
          class="unseen"
          type="text"
          name="username"
          value="sandkasten"
          autocomplete="username"
          aria-hidden="true"
          tabIndex={-1}
          readOnly
        />
        <label>
          <span>API key</span>
          <input
            name="key"
            type="password"
            autocomplete="current-password"
            spellcheck={false}
            required
            autofocus
          />
        </label>
        {problem !== undefined && (
          <p class="failure" role="alert">
            {problem}
          </p>
        )}
        <button type="submit" class="primary" disabled={isBusy}>
          {isBusy ? "Signing in…" : "Sign in"}
        </button>
        <p class="hint muted">
          <code>sandkasten start</code> prints the key. It stays in this tab's memory and is gone
          when the tab is closed or reloaded.
        </p>
      </form>
    </main>
  );
}
