import { useState } from "preact/hooks";

import { giveToken, token } from "../api";
import { askMeta } from "../meta";

/** The server wants a token: asks for one, and says where it comes from. */
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
        <h1>This log asks for a token</h1>
        <p>On the machine that runs the server, make one that may read:</p>
        <p class="command"><code>lore token create --scope read</code></p>
        <label>
          Token
          <input type="password" autocomplete="off" spellcheck={false} value={text} onInput={(input) => set(input.currentTarget.value)} placeholder="lore_…" autofocus />
        </label>
        {token.value !== null && <p class="refused" role="alert">The server did not accept the token that was given: it may be revoked, or of another log.</p>}
        <button type="submit" class="button primary">Come in</button>
        <p class="faint">It is kept until this tab is closed, and sent to this server only.</p>
      </form>
    </main>
  );
}
