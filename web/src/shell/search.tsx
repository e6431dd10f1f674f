import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

import { useFixed } from "../fixed";
import { asOf } from "../moment";
import type { SearchAnswer } from "../api/types";
import { useSessions } from "../ui/agent";
import { EventLine } from "../ui/events";
import { openDrawer } from "../ui/drawer";
import { Trouble } from "../ui/state";
import { Icon } from "./icons";

const asked = signal("");
const settled = signal("");
const PATIENCE = 180;
const MOST = 50;
let timer: ReturnType<typeof setTimeout> | undefined;

function ask(text: string): void {
  asked.value = text;
  clearTimeout(timer);
  timer = setTimeout(() => (settled.value = text.trim()), PATIENCE);
}

function Found({ text }: { text: string }) {
  const { data, error, loading } = useFixed<SearchAnswer>("/api/search", { q: text, limit: MOST, as_of: asOf.value });
  if (error) return <Trouble error={error} />;
  if (!data) return <p class="faint">Searching…</p>;
  const said = data.events.length === 0 ? "Nothing found" : data.events.length === MOST ? `The newest ${MOST}` : `${data.events.length} found`;
  return (
    <div class={loading ? "stale" : ""}>
      <p class="faint" role="status">
        {said}{asOf.value !== null && ", as known then"}{data.indexing && "; the index is still being built, so there may be more"}.
      </p>
      <ol class="event-list">
        {data.events.map((event) => (
          <EventLine key={event.id} event={event.excerpt ? { ...event, text: event.excerpt } : event} whole={event} leads />
        ))}
      </ol>
    </div>
  );
}

function Results() {
  useSessions();
  const box = useRef<HTMLInputElement>(null);
  // Before the next key is pressed: words of a quick hand would be commands.
  useLayoutEffect(() => box.current?.focus(), []);
  return (
    <>
      <label class="search-box">
        <Icon name="search" />
        <input
          ref={box} type="search" placeholder="Words, commands, file names…" aria-label="Search all text" value={asked.value}
          onInput={(input) => ask(input.currentTarget.value)}
        />
      </label>
      {settled.value ? <Found text={settled.value} /> : <p class="faint">Searches prompts, answers, commands and outputs{asOf.value === null ? "" : ", up to the time that is shown"}.</p>}
    </>
  );
}

export function openSearch(): void {
  openDrawer("Search", () => <Results />);
}
