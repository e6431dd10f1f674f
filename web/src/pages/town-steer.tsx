import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { post } from "../api";
import { meta } from "../meta";
import { asOf } from "../moment";
import { Trouble } from "../ui/state";

/** Whether this page may control, now. */
export function maySteer(): boolean {
  return asOf.value === null && !!meta.value?.scopes_of_token.includes("admin");
}

/** Whether it may at least write: messages and notes. */
export function mayWrite(): boolean {
  return asOf.value === null && !!meta.value?.scopes_of_token.includes("write");
}

/** What is needed to control from here. */
export function HowToSteer() {
  if (asOf.value !== null) return <p class="steer-how">This is the past. To change something, return to live (<kbd>l</kbd>).</p>;
  if (!meta.value || maySteer()) return null;
  return meta.value.sealed ? (
    <p class="steer-how">To control it from here, start <code>lore up</code> in a terminal and give it the log's passphrase: it then shows an address that may control. Or use <code>lore town</code> in a terminal.</p>
  ) : (
    <p class="steer-how">To control it from here, open this page with <code>lore up --open</code>, or add <code>#token=…</code> to its address, of <code>lore token create --scope admin</code>.</p>
  );
}

export interface Asking {
  /** Sends a request; what is answered, or nothing if it was refused. */
  ask: <T = unknown>(door: string, body: unknown) => Promise<T | null>;
  busy: boolean;
  error: Error | null;
}

/** One request at a time: while one is on its way there is no second, and a refusal is kept until the next. */
export function useAsk(): Asking {
  const [busy, wait] = useState(false);
  const [error, fail] = useState<Error | null>(null);
  const ask = async <T,>(door: string, body: unknown): Promise<T | null> => {
    wait(true);
    fail(null);
    try {
      return await post<T>(`/api/town/${door}`, body);
    } catch (refused) {
      fail(refused as Error);
      return null;
    } finally {
      wait(false);
    }
  };
  return { ask, busy, error };
}

/** What went wrong with a request, line by line. */
export function Refused({ asking }: { asking: Asking }) {
  return asking.error && <div class="town-refused"><Trouble error={asking.error} /></div>;
}

/** A button that asks back, and for a reason. */
export function AskBack({ word, question, label, busy, act }: {
  word: string;
  question: ComponentChildren;
  label: string;
  busy: boolean;
  act: (reason: string) => Promise<unknown>;
}) {
  const [asked, askBack] = useState(false);
  const [reason, say] = useState("");
  if (!asked) return <button type="button" class="button" onClick={() => askBack(true)}>{word}…</button>;
  return (
    <div class="ask-back" role="group" aria-label={label}>
      <span>{question}</span>
      <input class="field" aria-label="Why" placeholder="Why" maxLength={2000} autocomplete="off" value={reason} onInput={(input) => say(input.currentTarget.value)} />
      <button type="button" class="button deny" disabled={busy} onClick={() => void act(reason.trim()).then(() => askBack(false))}>{word}</button>
      <button type="button" class="button" onClick={() => askBack(false)}>No</button>
    </div>
  );
}

/** A line to write, and a button that sends it. */
export function Line({ label, hint, word, busy, send, extra }: {
  label: string;
  hint: string;
  word: string;
  busy: boolean;
  send: (text: string) => Promise<unknown>;
  extra?: ComponentChildren;
}) {
  const [text, set] = useState("");
  const submit = (sent: Event): void => {
    sent.preventDefault();
    if (text.trim() && !busy) void send(text.trim()).then((done) => done !== null && set(""));
  };
  return (
    <form class="steer-say" onSubmit={submit}>
      <input class="field" aria-label={label} placeholder={hint} maxLength={16_000} autocomplete="off" value={text} onInput={(input) => set(input.currentTarget.value)} />
      {extra}
      <button type="submit" class="button primary" disabled={busy || !text.trim()}>{word}</button>
    </form>
  );
}
