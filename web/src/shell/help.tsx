import { entries, more } from "../pages";
import { FAMILIES, SAID } from "../ui/beats";
import { BeatMark } from "../ui/beat";
import { Dialog, closeDialog, closed, toggleDialog } from "./dialog";

const opened = closed();
export const toggleHelp = (): void => toggleDialog(opened);
export const closeHelp = (): boolean => closeDialog(opened);

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
  return (
    <Dialog opened={opened} class="help" label="Keyboard shortcuts">
      <header>
        <h2>Keyboard shortcuts</h2>
        <button type="button" class="button icon" onClick={closeHelp} aria-label="Close">×</button>
      </header>
      <div class="help-columns">
        <dl>{[...entries, ...more].map((entry) => <Key key={entry.title} keys={[entry.key]} what={entry.title} />)}</dl>
        <dl>{KEYS.map(([keys, what]) => <Key key={what} keys={keys} what={what} />)}</dl>
      </div>
      <ul class="help-marks">
        {FAMILIES.map((family) => <li key={family}><BeatMark family={family} size={12} /> {SAID[family]}</li>)}
      </ul>
    </Dialog>
  );
}
