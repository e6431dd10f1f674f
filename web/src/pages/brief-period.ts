/** Which period the address of the Brief page asks for, and what it is called. Days are days of the reader's time zone. */

interface PeriodParams {
  /** One day: 2026-11-16. */
  day: string;
  /** So many days up to today. */
  last: string;
  /** The first and the last day of a range. */
  from: string;
  to: string;
}

interface PeriodQuery {
  day?: string;
  since?: string;
  until?: string;
}

const IS_DAY = /^\d{4}-\d{2}-\d{2}$/;
const MOST_DAYS = 366;
const LONG = new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
const SHORT = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const SHORT_YEAR = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });

/** The day of a moment in the reader's zone, as 2026-11-16. */
export function dayOf(moment: Date): string {
  const pad = (number: number): string => String(number).padStart(2, "0");
  return `${moment.getFullYear()}-${pad(moment.getMonth() + 1)}-${pad(moment.getDate())}`;
}

export function isDay(text: string): boolean {
  return IS_DAY.test(text) && !Number.isNaN(Date.parse(`${text}T00:00:00Z`));
}

/** So many days later, or earlier. */
export function addDays(day: string, days: number): string {
  const moment = new Date(`${day}T00:00:00Z`);
  moment.setUTCDate(moment.getUTCDate() + days);
  return moment.toISOString().slice(0, 10);
}

/** When a day begins in the reader's zone, for the server. */
function startOf(day: string): string {
  const [year, month, date] = day.split("-").map(Number) as [number, number, number];
  return new Date(year, month - 1, date).toISOString();
}

/** The first and last day that are asked for; `null` for the newest day with sessions. */
export function daysAsked({ day, last, from, to }: PeriodParams, today: string): [string, string] | null {
  if (isDay(day)) return [day, day];
  const many = Number.parseInt(last, 10);
  if (many > 0 && many <= MOST_DAYS) return [addDays(today, 1 - many), today];
  if (isDay(from)) {
    const end = isDay(to) ? to : today;
    return from <= end ? [from, end] : [end, from];
  }
  return null;
}

export function periodQuery(days: [string, string] | null): PeriodQuery {
  if (days === null) return {};
  const [first, end] = days;
  return first === end ? { day: first } : boundsOf(days);
}

/** The first moment of the first day, and the first after the last. */
export function boundsOf([first, end]: [string, string]): { since: string; until: string } {
  return { since: startOf(first), until: startOf(addDays(end, 1)) };
}

/** Monday, 16 November 2026; or 10 – 16 Nov 2026. */
export function periodTitle(days: [string, string]): string {
  const [first, end] = days.map((day) => new Date(`${day}T00:00:00Z`)) as [Date, Date];
  if (days[0] === days[1]) return LONG.format(first);
  const start = days[0].slice(0, 4) === days[1].slice(0, 4) ? SHORT : SHORT_YEAR;
  return `${start.format(first)} – ${SHORT_YEAR.format(end)}`;
}

/** A short name of a day: 16 Nov. */
export function dayTitle(day: string, today: string): string {
  if (day === today) return "today";
  if (day === addDays(today, -1)) return "yesterday";
  return (day.slice(0, 4) === today.slice(0, 4) ? SHORT : SHORT_YEAR).format(new Date(`${day}T00:00:00Z`));
}

/** Text, and what stands in parentheses at its end: who, where and what it cost. */
export function splitWho(text: string): [string, string] {
  const found = /^([^]*\S) \(([^()]{1,120})\)$/.exec(text);
  return found ? [found[1] ?? "", found[2] ?? ""] : [text, ""];
}
