import { computed, signal } from "@preact/signals";

import { get } from "./api";
import { onEvents } from "./live";
import type { Meta } from "./api/types";

/** What the server says about itself and its log; `null` until it has answered. */
export const meta = signal<Meta | null>(null);
/** The newest time that we know, live events included. */
const newestSeen = signal<string | null>(null);

export const lastAt = computed(() => {
  const known = meta.value?.last_at ?? null;
  return newestSeen.value !== null && (known === null || newestSeen.value > known) ? newestSeen.value : known;
});

const READING_PAUSE = 700;
const USUAL_PAUSE = 30_000;
const EVENTS_PAUSE = 3000;
let asked = 0;
let timer: ReturnType<typeof setTimeout> | undefined;

export async function askMeta(): Promise<void> {
  clearTimeout(timer);
  asked = Date.now();
  meta.value = await get<Meta>("/api/meta").catch(() => meta.peek());
  const reading = meta.value !== null && !meta.value.caught_up;
  timer = setTimeout(() => void askMeta(), reading ? READING_PAUSE : USUAL_PAUSE);
}

onEvents((events) => {
  for (const event of events) if (newestSeen.value === null || event.at > newestSeen.value) newestSeen.value = event.at;
  const first = !meta.peek()?.events;
  if (first || Date.now() - asked > EVENTS_PAUSE) void askMeta();
});
