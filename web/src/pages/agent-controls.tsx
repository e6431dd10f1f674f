import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import type { Control, Screen } from "../api/types";
import { plain } from "../ui/hostile";
import { counted } from "../ui/times";
import { Words } from "../ui/words";
import { dashboardOf, MARK, remember, shows } from "./agent-dashboard";
import { SETTLING, type Line } from "./agent-line";
import { groupsOf, rowsOf, shown, type Group } from "./agent-screen";

const MOST_ROWS = 200;

interface Hand {
  /** `null`: nothing can be pressed now. */
  press: ((action: string) => void) | null;
}

function useMark<T extends Element>(control: Control) {
  const element = useRef<T>(null);
  useLayoutEffect(() => remember(element.current, control));
  return { ref: element, [MARK]: control.type };
}

function Button({ control, press }: { control: Control } & Hand) {
  const mark = useMark<HTMLButtonElement>(control);
  const action = typeof control.action === "string" ? control.action : "";
  return (
    <button type="button" class="button" {...mark} disabled={press === null || !action} onClick={() => press?.(action)}>
      <Words text={shown(control.label) || action || "…"} />
    </button>
  );
}

function Label({ control }: { control: Control }) {
  const mark = useMark<HTMLDivElement>(control);
  const value = shown(control.value);
  return (
    <div class="ctl-label" {...mark}>
      <span class="ctl-name"><Words text={shown(control.text) || shown(control.id)} /></span>
      {value !== "" && <strong class="num"><Words text={value} /></strong>}
    </div>
  );
}

function Table({ control }: { control: Control }) {
  const mark = useMark<HTMLDivElement>(control);
  const { columns, rows } = rowsOf(control);
  return (
    <div class="ctl-table" {...mark} tabIndex={0} role="group" aria-label="Table">
      <table>
        <thead><tr>{columns.map((name, index) => <th key={index} scope="col" class={typeof rows[0]?.[index] === "number" ? "num" : undefined}><Words text={name} /></th>)}</tr></thead>
        <tbody>
          {rows.slice(0, MOST_ROWS).map((row, index) => (
            <tr key={index}>{row.map((cell, place) => <td key={place} class={typeof cell === "number" ? "num" : undefined}><Words text={shown(cell)} /></td>)}</tr>
          ))}
        </tbody>
      </table>
      <p class="faint num">{counted(rows.length, "row")}{rows.length > MOST_ROWS && `, the first ${MOST_ROWS} shown`}</p>
    </div>
  );
}

function Other({ control }: { control: Control }) {
  const mark = useMark<HTMLParagraphElement>(control);
  return <p class="ctl-other" {...mark}><span class="faint"><Words text={shown(control.type)} /></span> <Words text={shown(control.label) || shown(control.text)} /></p>;
}

function one(control: Control, index: number, hand: Hand): ComponentChildren {
  const key = `${control.type}:${shown(control.id) || shown(control.action)}:${index}`;
  if (control.type === "button") return <Button key={key} control={control} {...hand} />;
  if (control.type === "label") return <Label key={key} control={control} />;
  if (control.type === "table") return <Table key={key} control={control} />;
  return <Other key={key} control={control} />;
}

function Row({ group, hand }: { group: Group; hand: Hand }) {
  const name = group.machine === null ? {} : { role: "group" as const, "aria-label": plain(`Machine ${group.machine}`, 80) };
  return (
    <div class={`ctl-row ${group.machine === null ? `ctl-${group.type}s` : "ctl-machine"}`} {...name}>
      {group.controls.map((control, index) => one(control, index, hand))}
    </div>
  );
}

/** Watches what can be seen of a panel, and tells when that changes, whoever changed it. */
function useReports(line: Line | null, panel: { current: HTMLElement | null }, drawn: unknown): void {
  useEffect(() => {
    const box = panel.current;
    if (!line || !box) return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const soon = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => line.report(), SETTLING);
    };
    line.look = () => dashboardOf(panel.current);
    const observer = new MutationObserver(soon);
    observer.observe(box, { childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: ["class", "style", "hidden"] });
    soon();
    return () => {
      clearTimeout(timer);
      observer.disconnect();
    };
  }, [line, drawn]);
}

/** The agent's screen. Drawn anew from the ground where the page no longer shows what was drawn last: somebody has taken something away. */
export function Controls({ screen, line }: { screen: Screen; line: Line | null }) {
  const panel = useRef<HTMLElement>(null);
  const last = useRef({ controls: screen.controls, nth: 0 });
  if (last.current.controls !== screen.controls) {
    const isWhole = shows(panel.current, last.current.controls);
    last.current = { controls: screen.controls, nth: last.current.nth + (isWhole ? 0 : 1) };
  }
  const { nth } = last.current;
  useLayoutEffect(() => {
    if (line) line.drawn = screen.n;
  });
  useReports(line, panel, nth);
  const live = line !== null && line.link.value === "open";
  const hand: Hand = { press: live ? (action) => line.press(action) : null };
  return (
    <section class={`agent-screen${screen.controls.length === 0 ? " empty-screen" : ""}`} aria-label="The agent's screen" ref={panel} key={nth}>
      {groupsOf(screen.controls).map((group, index) => <Row key={group.machine === null ? index : `machine ${group.machine}`} group={group} hand={hand} />)}
    </section>
  );
}
