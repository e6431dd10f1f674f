/** How we write times, lengths and numbers: in the reader's own zone, short, with figures that line up. */

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const SECONDS = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short" });
const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const FULL = new Intl.DateTimeFormat("en-GB", {
  weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
});
const COUNT = new Intl.NumberFormat("en-GB");
const COMPACT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

function formatted(format: Intl.DateTimeFormat, at: string | number): string {
  const moment = new Date(at);
  return Number.isNaN(moment.getTime()) ? String(at) : format.format(moment);
}

/** 14:05 */
export const clock = (at: string | number): string => formatted(CLOCK, at);
/** 14:05:09 */
export const clockSeconds = (at: string | number): string => formatted(SECONDS, at);
/** 16 Nov 2026 */
export const date = (at: string | number): string => formatted(DATE, at);
/** Mon 16 Nov; of another year 25 Sept 2025 */
export const day = (at: string | number): string => formatted(new Date(at).getFullYear() === new Date().getFullYear() ? DAY : DATE, at);
/** 14:05–14:30, 14:05 alone where that is all, or 23:50 – Tue 17 Nov, 00:10 */
export function stretch(from: string, to: string): string {
  if (day(from) !== day(to)) return `${clock(from)} – ${day(to)}, ${clock(to)}`;
  return clock(from) === clock(to) ? clock(from) : `${clock(from)}–${clock(to)}`;
}
/** Mon, 16 Nov 2026, 14:05:09 UTC */
export const full = (at: string | number): string => formatted(FULL, at);

const STEPS: [seconds: number, sign: string][] = [[86_400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

/** A length of time in its one or two largest units: 9 s, 4 m 10 s, 3 h 20 m, 2 d 4 h. */
export function length(seconds: number): string {
  let rest = Math.max(0, Math.floor(seconds));
  const parts: string[] = [];
  for (const [size, sign] of STEPS) {
    const many = Math.floor(rest / size);
    rest -= many * size;
    if (many > 0) parts.push(`${many} ${sign}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ") || "0 s";
}

/** How long ago, in one unit: now, 9 s, 4 m, 3 h, 2 d. */
export function ago(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000);
  if (seconds < 2) return "now";
  const [size, sign] = STEPS.find(([least]) => seconds >= least) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${sign}`;
}

/** 1,234,567 */
export const count = (many: number): string => COUNT.format(many);
/** 1 event, 1,234 events */
export const counted = (many: number, one: string): string => `${COUNT.format(many)} ${one}${many === 1 ? "" : "s"}`;
/** 1.2M */
export const compact = (many: number): string => (Math.abs(many) < 10_000 ? COUNT.format(many) : COMPACT.format(many));

/** $0.04, $12.30, $1,234 */
export function usd(dollars: number | null | undefined): string {
  if (dollars === null || dollars === undefined) return "–";
  if (dollars !== 0 && Math.abs(dollars) < 0.01) return "<$0.01";
  const digits = Math.abs(dollars) >= 1000 ? 0 : 2;
  return `$${dollars.toLocaleString("en-GB", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}
