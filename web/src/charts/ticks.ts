/** Where an axis of time has its ticks, and what is written there, on the clocks of this browser. */

import { DAY, HOUR, MINUTE, SECOND, STEPS, lengthOf, type Span } from "./span";

export interface Tick {
  readonly at: number;
  readonly text: string;
  /** A new day (or month, or year) begins here. */
  readonly major: boolean;
}

const LABEL_PIXELS = 84;
const MOST_TICKS = 200;
const COARSEST_MONTHS: readonly number[] = [1, 3, 6, 12];

const formats = new Map<string, Intl.DateTimeFormat>();

/** A time in these words, as the browser's own zone has it. */
export function said(at: number, options: Intl.DateTimeFormatOptions): string {
  const key = JSON.stringify(options);
  let format = formats.get(key);
  if (!format) formats.set(key, (format = new Intl.DateTimeFormat("en-GB", options)));
  return format.format(at);
}

export function ticksOf(span: Span, width: number): Tick[] {
  const wanted = (lengthOf(span) / Math.max(width, 1)) * LABEL_PIXELS;
  const step = STEPS.find((one) => one >= wanted);
  const places = step === undefined || step > 14 * DAY ? months(span, wanted) : step >= DAY ? days(span, step / DAY) : clockSteps(span, step);
  return places.map((at) => tick(at, step ?? 28 * DAY));
}

/** Steps within a day, as clocks show them: on the day on which they are put forward or back, too. */
function clockSteps(span: Span, step: number): number[] {
  const found: number[] = [];
  for (let day = midnight(span.from); day < span.to; day = nextDay(day)) {
    const end = Math.min(nextDay(day), span.to + 1);
    for (let n = Math.max(0, Math.floor((span.from - day - HOUR) / step)); found.length < MOST_TICKS; n += 1) {
      const at = step < HOUR ? day + n * step : onTheClock(day, (n * step) / HOUR);
      if (at >= end) break;
      if (at >= span.from && at > (found.at(-1) ?? -Infinity)) found.push(at);
    }
  }
  return found;
}

function onTheClock(day: number, hours: number): number {
  const date = new Date(day);
  return new Date(date.getFullYear(), date.getMonth(), date.getDate(), hours).getTime();
}

function days(span: Span, count: number): number[] {
  const found: number[] = [];
  for (let day = midnight(span.from); day <= span.to && found.length < MOST_TICKS; day = nextDay(day)) {
    if (day >= span.from && dayNumber(day) % count === 0) found.push(day);
  }
  return found;
}

function months(span: Span, wanted: number): number[] {
  const count = COARSEST_MONTHS.find((one) => one * 30 * DAY >= wanted) ?? 12;
  const found: number[] = [];
  const start = new Date(span.from);
  for (let month = 0; found.length < MOST_TICKS; month += 1) {
    const at = new Date(start.getFullYear(), start.getMonth() + month, 1);
    if (at.getTime() > span.to) break;
    if (at.getTime() >= span.from && at.getMonth() % count === 0) found.push(at.getTime());
  }
  return found;
}

function tick(at: number, step: number): Tick {
  const opens = at === midnight(at);
  return { at, text: label(at, step, opens), major: opens && (step < DAY || new Date(at).getDate() === 1) };
}

function label(at: number, step: number, opens: boolean): string {
  if (step > 14 * DAY) return said(at, new Date(at).getMonth() === 0 ? { year: "numeric" } : { month: "short", year: "2-digit" });
  if (opens) return said(at, { weekday: "short", day: "numeric", month: "short" });
  if (step >= MINUTE) return said(at, { hour: "2-digit", minute: "2-digit" });
  const clock = said(at, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return step >= SECOND ? clock : `${clock}.${String(new Date(at).getMilliseconds()).padStart(3, "0")}`;
}

export function midnight(at: number): number {
  const day = new Date(at);
  return new Date(day.getFullYear(), day.getMonth(), day.getDate()).getTime();
}

function nextDay(at: number): number {
  const day = new Date(at);
  return new Date(day.getFullYear(), day.getMonth(), day.getDate() + 1).getTime();
}

function dayNumber(at: number): number {
  const day = new Date(at);
  return Math.round(Date.UTC(day.getFullYear(), day.getMonth(), day.getDate()) / DAY);
}

/** How long a stretch is, in the words of the buttons: `15 min`, `6 h`, `3.5 days`. */
export function lengthInWords(length: number): string {
  if (length < MINUTE) return `${trim(length / SECOND)} s`;
  if (length < HOUR) return `${trim(length / MINUTE)} min`;
  if (length < 2 * DAY) return `${trim(length / HOUR)} h`;
  return `${trim(length / DAY)} days`;
}

function trim(value: number): string {
  return value < 10 ? String(Math.round(value * 10) / 10) : String(Math.round(value));
}
