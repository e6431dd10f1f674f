import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import type { Params } from "../api";
import { now } from "../clock";
import { useFixed } from "../fixed";
import type { EventsAnswer, LoreEvent } from "../api/types";
import { AgentName, shownName } from "./agent";
import { Copy } from "./copy";
import { openDrawer } from "./drawer";
import { Json } from "./json";
import { unmarked } from "./markdown";
import { SessionLink } from "./session-link";
import { Trouble } from "./state";
import { clock, clockSeconds, day, full } from "./times";
import { Words } from "./words";

const SESSION_KINDS = /^(?:tool|prompt|model|session)\.|^agent\.(?:thought|launched|returned)$/;

/** Whether an event is a row of a session's transcript. */
function isInSession(event: LoreEvent): boolean {
  return event.run !== undefined && SESSION_KINDS.test(event.kind);
}

/** The clock alone for what was on the day that is shown, else the day too. */
function when(at: string): string {
  return day(at) === day(now.peek()) ? clockSeconds(at) : `${day(at)}, ${clock(at)}`;
}

/** One event: when, who, what; its JSON below when it is opened (that of `whole`, where `event` shows only an excerpt). */
export function EventLine({ event, whole = event, opened = false, leads = false }: { event: LoreEvent; whole?: LoreEvent; opened?: boolean; leads?: boolean }) {
  const [open, setOpen] = useState(opened);
  return (
    <li class="event-line">
      <button type="button" class="event-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <time class="num faint" dateTime={event.at} title={full(event.at)}>{when(event.at)}</time>
        <code class="kind">{event.kind}</code>
        {event.agent && <Words class="who" text={unmarked(shownName(event.agent))} />}
      </button>
      {event.text && <p class="event-text">{leads && isInSession(event) ? <SessionLink session={event.run ?? ""} at={event.id} class="event-link"><Words text={event.text} /></SessionLink> : <Words text={event.text} />}</p>}
      {open && (
        <div class="event-open">
          <p class="row">
            {isInSession(event) && <SessionLink session={event.run ?? ""} at={event.id} class="button small">Open in the session</SessionLink>}
            {event.agent && <AgentName name={event.agent} />}
            <span class="faint">{day(event.at)}</span>
            <Copy text={JSON.stringify(whole, null, 2)} label="Copy JSON" />
          </p>
          <Json value={whole} />
        </div>
      )}
    </li>
  );
}

function EventList({ events, opened = events.length === 1 }: { events: LoreEvent[]; opened?: boolean | undefined }) {
  return (
    <ol class="event-list">
      {events.map((event) => <EventLine key={event.id} event={event} opened={opened} />)}
    </ol>
  );
}

/** The events that an address answers with, as a list; asked for anew with every `turn`. */
export function EventsBy({ params, turn, opened }: { params: Params; turn?: unknown; opened?: boolean }) {
  const { data, error } = useFixed<EventsAnswer>("/api/events", params, turn);
  if (error) return <Trouble error={error} />;
  if (!data) return <p class="faint">Loading…</p>;
  if (data.events.length === 0) return <p class="faint">They are no longer in the log: they were trimmed or erased.</p>;
  return <EventList events={data.events} opened={opened} />;
}

const MOST_IDS = 100;

/** Opens the drawer with the events that prove something. */
export function showEvents(ids: readonly string[], title: ComponentChildren): void {
  const asked = ids.slice(0, MOST_IDS);
  openDrawer(title, () => (
    <>
      {ids.length > asked.length && <p class="faint">The first {asked.length} of {ids.length}.</p>}
      <EventsBy params={{ id: asked }} />
    </>
  ));
}
