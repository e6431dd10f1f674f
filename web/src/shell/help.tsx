import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

import { entries, more } from "../pages";
import { FAMILIES, SAID } from "../ui/beats";
import { BeatMark } from "../ui/beat";
import { keepFocus } from "../ui/focus";

const open = signal(false);

export function toggleHelp(): void {
  open.value = !open.peek();
}

export function closeHelp(): boolean {
  const was = open.peek();
  open.value = false;
  return was;
}

const KEYS: [keys: string[], what: string][] = [
  [["/"], "search all text"],
  [["Ctrl", "K"], "command palette: pages, sessions, actions"],
  [["j", "k"], "next or previous row of a list; Enter opens it"],
  [["[", "]"], "step back or forward in time"],
  [["p"], "play from the shown time, or stop"],
  [["l"], "back to live"],
  [["Esc"], "close"],
  [["?"], "keyboard shortcuts"],
];

function Key({ keys, what }: { keys: string[]; what: string }) {
  return (
    <div class="help-key">
      <dt>{keys.map((key) => <kbd key={key}>{key}</kbd>)}</dt>
      <dd>{what}</dd>
    </div>
  );
}

export function Help() {
  const box = useRef<HTMLDialogElement>(null);
  const shown = open.value;
  useLayoutEffect(() => {
    if (!shown) return;
    const giveBack = keepFocus();
    box.current?.showModal();
    return giveBack;
  }, [shown]);
  if (!shown) return null;
  return (
    <dialog class="help" ref={box} onClose={closeHelp} onClick={(click) => click.target === box.current && closeHelp()} aria-labelledby="help-title">
      <header>
        <h2 id="help-title">Keyboard shortcuts</h2>
        <button type="button" class="button icon" onClick={closeHelp} aria-label="Close">×</button>
      </header>
      <div class="help-columns">
        <dl>{[...entries, ...more].map((entry) => <Key key={entry.title} keys={[entry.key]} what={entry.title} />)}</dl>
        <dl>{KEYS.map(([keys, what]) => <Key key={what} keys={keys} what={what} />)}</dl>
      </div>
      <ul class="help-marks">
        {FAMILIES.map((family) => <li key={family}><BeatMark family={family} size={12} /> {SAID[family]}</li>)}
      </ul>
    </dialog>
  );
}
