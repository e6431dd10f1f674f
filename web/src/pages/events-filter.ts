/** Which events are wanted: as the address states it, as the server is asked, and as new ones are sorted out here. */

export interface Filter {
  readonly scope: string;
  readonly kinds: readonly string[];
  readonly q: string;
  /** `""` forever, a length such as `24h`, or a time. */
  readonly since: string;
}

interface EventLike {
  readonly id: string;
  readonly at: string;
  readonly kind: string;
  readonly [field: string]: unknown;
}

export const EVERYTHING: Filter = { scope: "", kinds: [], q: "", since: "" };

const SCOPES: Readonly<Record<string, readonly string[]>> = {
  agent: ["agent", "parent", "child"],
  mission: ["mission"],
  task: ["task"],
  goal: ["goal"],
  run: ["run"],
};
const UNITS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** What the address says; kinds may be given one by one, or with commas between them. */
export function fromAddress(search: string): Filter {
  const params = new URLSearchParams(search);
  const kinds = params.getAll("kind").flatMap((given) => given.split(",")).map((kind) => kind.trim());
  return { scope: params.get("scope") ?? "", kinds: [...new Set(kinds)].filter(Boolean), q: params.get("q") ?? "", since: params.get("since") ?? "" };
}

export function toAddress(filter: Filter): Record<string, string | null> {
  return { scope: filter.scope || null, kind: filter.kinds.join(",") || null, q: filter.q || null, since: filter.since || null };
}

/** What the server is told; `now` makes a time of a length. */
export function pairs(filter: Filter, now?: number): [string, string][] {
  const found: [string, string][] = [];
  if (filter.q) found.push(["q", filter.q]);
  if (filter.scope) found.push(["scope", filter.scope]);
  for (const kind of filter.kinds) found.push(["kind", kind]);
  const since = now === undefined ? filter.since : sinceTime(filter.since, now);
  if (since) found.push(["since", since]);
  return found;
}

/** A length before now as a time; a time stays what it is; nonsense is nothing. */
export function sinceTime(since: string, now: number): string {
  const [, count, unit] = /^(\d{1,4})([mhdw])$/.exec(since) ?? [];
  if (count && unit) return new Date(now - Number(count) * (UNITS[unit] ?? 0)).toISOString();
  return Number.isNaN(Date.parse(since)) ? "" : new Date(since).toISOString();
}

export function isWanted(event: EventLike, filter: Filter, now: number): boolean {
  return isInScope(event, filter.scope) && isOfKinds(event.kind, filter.kinds) && isSince(event.at, sinceTime(filter.since, now));
}

export function isInScope(event: EventLike, scope: string): boolean {
  if (!scope || scope === "town") return true;
  const colon = scope.indexOf(":");
  const [word, name] = [scope.slice(0, colon), scope.slice(colon + 1)];
  if (word === "source") return sourceOf(event) === name;
  return (SCOPES[word] ?? []).some((field) => event[field] === name);
}

/** Exactly, or by its family: `fleet.*`. */
export function isOfKinds(kind: string, wanted: readonly string[]): boolean {
  return wanted.length === 0 || wanted.some((one) => (one.endsWith(".*") ? kind.startsWith(one.slice(0, -1)) : kind === one));
}

/** Every scope that an event names, as filters of their own. */
export function scopesOf(event: EventLike): string[] {
  const found = new Set<string>();
  for (const [word, fields] of Object.entries(SCOPES)) {
    for (const field of fields) if (typeof event[field] === "string" && event[field]) found.add(`${word}:${event[field]}`);
  }
  return [...found];
}

/** What an event without a line of its own says: its change of state, and the plain values of its payload. */
export function gist(event: EventLike): string {
  const { old_state: before, new_state: after, data } = event;
  const change = typeof after === "string" ? [`${typeof before === "string" ? `${before} → ` : ""}${after}`] : [];
  const values = Object.entries(typeof data === "object" && data !== null ? data : {}).filter(([, value]) => value !== null && typeof value !== "object");
  return [...change, ...values.map(([name, value]) => `${name} ${String(value)}`)].join(" · ").slice(0, 300);
}

function isSince(at: string, since: string): boolean {
  return !since || Date.parse(at) >= Date.parse(since);
}

function sourceOf(event: EventLike): unknown {
  const origin = event["origin"];
  const log = typeof origin === "object" && origin !== null ? (origin as Record<string, unknown>)["log"] : undefined;
  return typeof log === "object" && log !== null ? (log as Record<string, unknown>)["id"] : undefined;
}
