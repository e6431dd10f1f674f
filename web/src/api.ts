import { signal } from "@preact/signals";

type Param = string | number | boolean | null | undefined | readonly string[];
export type Params = Record<string, Param>;

/** What the server says when it says no: its title, and what to do next. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
  ) {
    super(detail || title);
  }
}

const KEPT = "fleetlore.token";

/** True once the server has asked for a token that we do not have. */
export const locked = signal(false);
export const token = signal<string | null>(null);

/** Takes the token out of the address (`#token=…`), so that nobody copies it on with a link. */
export function takeToken(): void {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEPT, given);
    history.replaceState(history.state, "", location.pathname + location.search);
  }
  token.value = sessionStorage.getItem(KEPT);
}

/** Takes a token that somebody typed. */
export function giveToken(given: string): void {
  sessionStorage.setItem(KEPT, given);
  token.value = given;
  locked.value = false;
}

export function query(params: Params = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) search.append(name, String(one));
  }
  const text = search.toString();
  return text ? `?${text}` : "";
}

export function headers(): Record<string, string> {
  return token.value ? { Authorization: `Bearer ${token.value}` } : {};
}

/** One answer of the server as JSON; a `Refusal` where it refuses, a `TypeError` where it cannot be reached. */
export async function get<T>(path: string, params?: Params, abort?: AbortSignal): Promise<T> {
  const answer = await fetch(path + query(params), { headers: headers(), signal: abort ?? null });
  if (!answer.ok) throw await refusal(answer);
  return (await answer.json()) as T;
}

/** One answer of the server as text; refuses as `get` does. */
export async function getText(path: string, params?: Params): Promise<string> {
  const answer = await fetch(path + query(params), { headers: headers() });
  if (!answer.ok) throw await refusal(answer);
  return answer.text();
}

/** Sends something as JSON; refuses as `get` does, but a missing right does not lock the room. */
export async function post<T>(path: string, body: unknown): Promise<T> {
  const answer = await fetch(path, { method: "POST", headers: { ...headers(), "Content-Type": "application/json" }, body: JSON.stringify(body) });
  if (!answer.ok) throw await refusal(answer, false);
  return (await answer.json()) as T;
}

export async function refusal(answer: Response, locks = true): Promise<Refusal> {
  if (locks && answer.status === 401) locked.value = true;
  const said = (await answer.json().catch(() => ({}))) as { title?: string; detail?: string };
  return new Refusal(answer.status, said.title ?? `The server answered ${answer.status}`, said.detail ?? "");
}
