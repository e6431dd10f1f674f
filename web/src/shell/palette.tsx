import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { get } from "../api";
import { asOf, setAsOf, source } from "../moment";
import { entries, more } from "../pages";
import { go } from "../router";
import type { FleetAnswer } from "../api/types";
import type { SessionsAnswer } from "../api/types";
import { switchTheme } from "../theme";
import { openWork, shownName } from "../ui/agent";
import { unmarked } from "../ui/markdown";
import { openWhy } from "../pages/why";
import { openSession } from "../ui/session-link";
import { Words } from "../ui/words";
import { Dialog, closeDialog, closed, toggleDialog } from "./dialog";
import { toggleHelp } from "./help";
import { openSearch } from "./search";
import { togglePlay } from "./travel";
import { ringBell } from "./watch";

const opened = closed();
const MOST_SHOWN = 12;
const MOST_SESSIONS = 300;

export const togglePalette = (): void => toggleDialog(opened);
export const closePalette = (): boolean => closeDialog(opened);

interface Command {
  kind: string;
  text: string;
  more?: string;
  key?: string;
  run: () => void;
}

function pageCommands(): Command[] {
  return [...entries, ...more].flatMap((entry) => entry.pages.map((page, index) => ({ kind: "Page", text: page.title, key: index === 0 ? entry.key : "", run: () => go(page.path) })));
}

function actions(): Command[] {
  return [
    { kind: "Action", text: "Search all text", key: "/", run: openSearch },
    { kind: "Action", text: "Show sessions that need you", run: () => go("sessions", { show: "needs" }) },
    { kind: "Action", text: "Show flagged sessions", run: () => go("sessions", { show: "flagged" }) },
    { kind: "Action", text: "Switch between light and dark", run: switchTheme },
    { kind: "Action", text: "Turn notifications on or off", run: () => void ringBell() },
    { kind: "Action", text: asOf.value === null ? "Play from the beginning" : "Return to live", key: asOf.value === null ? "p" : "l", run: () => (asOf.peek() === null ? togglePlay() : setAsOf(null, "push")) },
    { kind: "Action", text: "Copy a link to this page", run: () => void navigator.clipboard.writeText(location.href) },
    { kind: "Action", text: "Keyboard shortcuts", key: "?", run: toggleHelp },
  ];
}

/** Something that may be the path of a file. */
const PATH = /^[\w@+.-]+(?:\/[\w@+.-]+)*\.\w{1,10}$/;

function files(text: string): Command[] {
  return PATH.test(text) ? [{ kind: "File", text: `Why is ${text} as it is?`, run: () => openWhy(text) }] : [];
}

function waiting(): Command[] {
  const fleet = source<FleetAnswer>("/api/fleet").state.value.data;
  return (fleet?.agents ?? []).filter((agent) => agent.standing === "needs you").map((agent) => ({ kind: "Needs you", text: shownName(agent.name), more: unmarked(agent.doing), run: () => openWork(agent.name) }));
}

function useSessions(): Command[] {
  const [found, set] = useState<Command[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    get<SessionsAnswer>("/api/sessions", { limit: MOST_SESSIONS }, abort.signal).then(
      ({ sessions }) => set(sessions.map((one) => ({ kind: "Session", text: unmarked(one.name), more: [one.person, one.repo, one.branch, one.session.slice(0, 8)].filter(Boolean).join(" · "), run: () => openSession(one.session) }))),
      () => undefined,
    );
    return () => abort.abort();
  }, []);
  return found;
}

function fits(command: Command, words: readonly string[]): boolean {
  const whole = `${command.kind} ${command.text} ${command.more ?? ""}`.toLowerCase();
  return words.every((word) => whole.includes(word));
}

function Commands() {
  const [text, type] = useState("");
  const [chosen, choose] = useState(0);
  const box = useRef<HTMLInputElement>(null);
  const sessions = useSessions();
  useLayoutEffect(() => box.current?.focus(), []);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = useMemo(() => [...waiting(), ...pageCommands(), ...actions(), ...(words.length > 0 ? sessions : sessions.slice(0, 3))].filter((command) => fits(command, words)).concat(files(text.trim())), [text, sessions]);
  const shown = words.length > 0 ? found.slice(0, MOST_SHOWN) : found;
  const run = (command: Command | undefined): void => {
    if (!command) return;
    closePalette();
    command.run();
  };
  const pressed = (press: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[press.key];
    if (step !== undefined) choose((chosen + step + shown.length) % Math.max(1, shown.length));
    else if (press.key === "Enter") run(shown[chosen]);
    else return;
    press.preventDefault();
  };
  return (
    <>
      <input ref={box} class="palette-input" type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-label="Command, page or session" placeholder="Go to a page, a session, or do something…" value={text}
        aria-activedescendant={shown[chosen] ? `palette-${chosen}` : undefined}
        onInput={(input) => {
          type(input.currentTarget.value);
          choose(0);
        }} onKeyDown={pressed} />
      <ul id="palette-list" class="palette-list" role="listbox" aria-label="Commands">
        {shown.map((command, index) => (
          <li key={`${command.kind}${command.text}${index}`} id={`palette-${index}`} role="option" aria-selected={index === chosen} onClick={() => run(command)} ref={(element) => {
            if (index === chosen) element?.scrollIntoView({ block: "nearest" });
          }}>
            <span class="palette-kind">{command.kind}</span>
            <span class="palette-text"><Words text={command.text} />{command.more && <span class="faint"><Words text={command.more.slice(0, 160)} /></span>}</span>
            {command.key && <kbd>{command.key}</kbd>}
          </li>
        ))}
        {shown.length === 0 && <li class="faint">Nothing matches.</li>}
      </ul>
    </>
  );
}

/** The command palette: pages, actions and sessions by typing. */
export function Palette() {
  return <Dialog opened={opened} class="palette" label="Commands"><Commands /></Dialog>;
}
