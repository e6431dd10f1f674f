import { effect, signal } from "@preact/signals";

import { setClock } from "../clock";
import { source } from "../moment";
import type { AgentCard, FleetAnswer } from "../api/types";
import { shownName } from "../ui/agent";
import { plain } from "../ui/hostile";
import { arrivals, needing } from "./arrivals";

const KEPT = "fleetlore.muted";
const MOST_TOASTS = 4;
const PAUSE = 2000;

export const muted = signal(localStorage.getItem(KEPT) === "yes");
/** Those who came to need a person while we watched, newest first, until they are dismissed or no longer do. */
export const toasts = signal<AgentCard[]>([]);
export const needed = signal(0);

/** Whether the browser may show notifications of its own: `default` means that nobody has been asked. */
export const permission = signal("Notification" in window ? Notification.permission : "denied");

/** The bell: mutes or unmutes; the first click asks whether the browser may show notifications when this page is hidden. */
export async function ringBell(): Promise<void> {
  if (!muted.peek() && permission.peek() === "default") {
    permission.value = await Notification.requestPermission();
    return;
  }
  muted.value = !muted.peek();
  localStorage.setItem(KEPT, muted.value ? "yes" : "no");
  if (muted.value) toasts.value = [];
}

function notify(agent: AgentCard): void {
  if (permission.peek() !== "granted" || !document.hidden) return;
  const note = new Notification(`${plain(shownName(agent.name), 60)} needs you`, { body: plain(agent.doing), tag: `needs ${agent.name}` });
  note.onclick = () => {
    window.focus();
    note.close();
  };
}

export function dismiss(name: string): void {
  toasts.value = toasts.peek().filter((agent) => agent.name !== name);
}

function noticed(before: FleetAnswer | null, fleet: FleetAnswer): void {
  const now = needing(fleet);
  needed.value = now.size + fleet.asking.length;
  const still = toasts.peek().filter((agent) => now.has(agent.name));
  const came = muted.peek() ? [] : arrivals(before, fleet);
  came.forEach(notify);
  if (came.length > 0 || still.length !== toasts.peek().length) toasts.value = [...came, ...still].slice(0, MOST_TOASTS);
}

/** Watches the living fleet, whatever page or moment is shown, and notices who comes to need a person. */
export function watchFleet(): void {
  const fleet = source<FleetAnswer>("/api/fleet");
  let before: FleetAnswer | null = null;
  fleet.hold(PAUSE);
  effect(() => {
    const { data } = fleet.state.value;
    if (!data || data === before) return;
    setClock(data.now);
    noticed(before, data);
    before = data;
  });
}
