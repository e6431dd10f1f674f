import { useState } from "preact/hooks";

import { post } from "../api";
import { meta } from "../meta";
import { asOf } from "../moment";
import type { StagePlay } from "../api/types";
import { Trouble } from "../ui/state";

function Box({ run }: { run: string }) {
  const [text, set] = useState("");
  const [error, fail] = useState<Error | null>(null);
  const [busy, wait] = useState(false);
  const submit = (sent: Event): void => {
    sent.preventDefault();
    if (!text.trim() || busy) return;
    wait(true);
    fail(null);
    post("/api/stage/inject", { run, text: text.trim() }).then(() => set(""), fail).finally(() => wait(false));
  };
  return (
    <form class="say" onSubmit={submit}>
      <input class="field" aria-label="Say something to them" placeholder="Say something to them…" maxLength={4000} autocomplete="off" value={text} onInput={(input) => set(input.currentTarget.value)} />
      <button type="submit" class="button primary" disabled={busy || !text.trim()}>Break in</button>
      {error && <Trouble error={error} />}
    </form>
  );
}

/** Where a visitor speaks: only while the cast plays, only now, and only with the right to control. */
export function Say({ play }: { play: StagePlay }) {
  if (play.finished || asOf.value !== null || !meta.value) return null;
  if (meta.value.scopes_of_token.includes("admin")) return <Box run={play.run} />;
  return (
    <p class="say-how">To write to them, run <code>lore up --open</code>, or append <code>#token=…</code> to the URL. <code>lore token create --scope admin</code> creates a token.</p>
  );
}
