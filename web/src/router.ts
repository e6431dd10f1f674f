import { batch, computed, signal } from "@preact/signals";

import { query, type Params } from "./api";

/** Pages that have another name now: old links keep working. */
const MOVED: Record<string, string> = { story: "brief", fleet: "now", threads: "sessions", agent: "chat", work: "goals" };

/** The address in its present form. */
export function moved(pathname: string, search: string): string {
  const [, first = "", ...others] = pathname.split("/");
  const name = Object.hasOwn(MOVED, first) ? MOVED[first] : undefined;
  if (name === undefined) return pathname + search;
  const kept = new URLSearchParams(search);
  kept.delete("detail");
  const text = kept.toString();
  return ["", name, ...others].join("/") + (text ? `?${text}` : "");
}

function settle(): void {
  const address = moved(location.pathname, location.search);
  if (address !== location.pathname + location.search) history.replaceState(history.state, "", address + location.hash);
}

settle();
const path = signal(location.pathname);
const search = signal(location.search);

/** The first word of the address, which names the page; empty for the first page. */
export const word = computed(() => path.value.split("/")[1] ?? "");
/** What follows it: the one thing that the page is to show; empty if there is none. */
export const rest = computed(() => decoded(path.value.split("/").slice(2).join("/")));
export const params = computed(() => new URLSearchParams(search.value));

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function read(): void {
  settle();
  batch(() => {
    path.value = location.pathname;
    search.value = location.search;
  });
}

addEventListener("popstate", read);

export type Step = "push" | "replace";

function step(address: string, how: Step): void {
  if (address === location.pathname + location.search) return;
  if (how === "push") history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  read();
}

/** The address of a page. The moment that is looked at goes along, unless it is given. */
export function href(page: string, given: Params = {}): string {
  return `/${page}${query({ as_of: params.value.get("as_of"), ...given })}`;
}

export function go(page: string, given: Params = {}): void {
  step(href(page, given), "push");
}

/** Changes parameters of the page that is open; `null` takes one away. */
export function setParams(given: Record<string, string | null>, how: Step = "replace"): void {
  const next = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === "") next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString();
  step(location.pathname + (text ? `?${text}` : ""), how);
}

/** One parameter of the page as text, and how to change it. */
export function useParam(name: string, usual = ""): [string, (value: string, how?: Step) => void] {
  const value = params.value.get(name) ?? usual;
  return [value, (next, how) => setParams({ [name]: next === usual ? null : next }, how)];
}
