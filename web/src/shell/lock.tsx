import { useState } from "preact/hooks";

import { giveToken, token } from "../api";
import { askMeta } from "../meta";

/** Shown when the server needs a token: how to get a signed-in browser, or a field to paste a token. */
export function Lock() {
  const [text, set] = useState("");
  const submit = (sent: Event): void => {
    sent.preventDefault();
    if (!text.trim()) return;
    giveToken(text.trim());
    void askMeta();
  };
  return (
    <main class="lock">
      <form onSubmit={submit}>
        <h1>Sign in</h1>
        <p>On the machine that runs the server, this opens a browser that is signed in for 90 days:</p>
        <p class="command"><code>lore open</code></p>
        <p>From elsewhere, paste a token. <code>lore token create --scope read</code> makes one.</p>
        <label>
          Token
          <input type="password" autocomplete="off" spellcheck={false} value={text} onInput={(input) => set(input.currentTarget.value)} placeholder="lore_…" autofocus />
        </label>
        {token.value !== null && <p class="refused" role="alert">The server rejected this token: it may be revoked, or belong to another log.</p>}
        <button type="submit" class="button primary">Sign in</button>
        <p class="faint">The token is kept until this tab is closed, and sent to this server only.</p>
      </form>
    </main>
  );
}
