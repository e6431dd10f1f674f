import { useComputed } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { token } from "../api";
import { asOf, now } from "../clock";
import { meta } from "../meta";
import { params } from "../router";
import type { FoundEvent } from "../api/types";
import { shownName, useSessions } from "../ui/agent";
import { Copy } from "../ui/copy";
import { Empty } from "../ui/empty";
import { plain } from "../ui/hostile";
import { unmarked } from "../ui/markdown";
import { Trouble, Waiting } from "../ui/state";
import { clockSeconds, counted, day, full } from "../ui/times";
import { Words } from "../ui/words";
import { curlToRead } from "./events-curl";
import { openEvent } from "./events-drawer";
import { fromAddress, gist, pairs, type Filter } from "./events-filter";
import { Filters } from "./events-filters";
import { EventsModel, MOST_FOUND } from "./events-model";
import type { Page } from "./page";
import "../styles/events.css";

const SPARE_ROWS = 12;
const NEAR_END = 30;
const COLUMNS = ["when", "kind", "agent", "what"];

function Events() {
  const address = useComputed(() => params.value.toString());
  const said = JSON.stringify(fromAddress(address.value));
  const filter = useMemo(() => JSON.parse(said) as Filter, [said]);
  const model = useMemo(() => new EventsModel(filter), []);
  useEffect(() => model.start(), [model]);
  useSessions();
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current) model.restart(filter);
    isFirst.current = false;
  }, [filter]);
  return (
    <section class="events">
      <Filters filter={filter} />
      <Status model={model} filter={filter} />
      {model.error.value && <Trouble error={model.error.value} />}
      <Rows model={model} filter={filter} />
    </section>
  );
}

function Status({ model, filter }: { model: EventsModel; filter: Filter }) {
  const path = filter.q ? "/api/search" : "/api/events";
  const asked = pairs(filter, now.peek()).filter(([name]) => !(filter.q && name === "since"));
  if (asOf.value !== null) asked.push(["as_of", asOf.value]);
  const withToken = token.value !== null || meta.value?.token_needed_to_read === true;
  const rows = model.rows.value.length;
  return (
    <div class="ev-status">
      <p class="faint num" role="status">
        {model.loading.value && rows === 0 ? "Looking…" : `${filter.q && rows >= MOST_FOUND ? "The newest " : ""}${counted(rows, "event")}${model.more.value ? " so far" : ""}`}
        {filter.q && " with these words"}{model.indexing.value && "; the index is still being made, so there may be more"}
        {asOf.value !== null && ", as known then"}
      </p>
      <Copy label="Copy as curl" text={curlToRead(location.origin, path, asked, withToken)} />
    </div>
  );
}

function Rows({ model, filter }: { model: EventsModel; filter: Filter }) {
  const scroller = useRef<HTMLDivElement>(null);
  const [seen, see] = useState({ first: 0, many: 60 });
  const rows = model.rows.value;
  const look = (): void => {
    const box = scroller.current;
    if (!box) return;
    const high = rowHeight(box);
    model.isAtTop = box.scrollTop < high / 2;
    const next = { first: Math.max(0, Math.floor(box.scrollTop / high) - SPARE_ROWS), many: Math.ceil(box.clientHeight / high) + 2 * SPARE_ROWS };
    see((last) => (last.first === next.first && last.many === next.many ? last : next));
    if (next.first + next.many + NEAR_END > model.rows.peek().length) model.older();
  };
  useLayoutEffect(look, [rows.length]);
  useEffect(() => {
    const observer = new ResizeObserver(look);
    if (scroller.current) observer.observe(scroller.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => scroller.current?.scrollTo(0, 0), [filter]);
  if (rows.length === 0) return <None model={model} filter={filter} />;
  const shown = rows.slice(seen.first, seen.first + seen.many);
  return (
    <div class="ev-list">
      {model.waiting.value.length > 0 && <NewOnes model={model} onTake={() => scroller.current?.scrollTo({ top: 0 })} />}
      <div class="ev-scroller" ref={scroller} onScroll={look} role="table" aria-label="Events, newest first" aria-rowcount={rows.length} tabIndex={0}>
        <div class="ev-top" role="rowgroup"><div class="ev-head" role="row">{COLUMNS.map((word) => <span key={word} role="columnheader">{word}</span>)}</div></div>
        <div class="ev-space" role="rowgroup" style={{ "--rows": rows.length, "--first": seen.first }}>
          <div class="ev-rows" role="presentation">
            {shown.map((event, index) => (
              <Row key={event.id} event={event} index={seen.first + index} isNew={model.arrived.value.has(event.id)} isNewDay={isNewDay(rows, seen.first + index)} />
            ))}
          </div>
        </div>
        {!model.more.value && rows.length > seen.many && <p class="ev-end faint">No older events.</p>}
      </div>
    </div>
  );
}

function NewOnes({ model, onTake }: { model: EventsModel; onTake: () => void }) {
  const many = model.waiting.value.length;
  const take = (): void => {
    model.isAtTop = true;
    model.takeWaiting();
    onTake();
  };
  return <button type="button" class="ev-new" onClick={take}>{many >= 500 ? "500 or more new" : `${many} new`} ↑</button>;
}

function Row({ event, index, isNew, isNewDay }: { event: FoundEvent; index: number; isNew: boolean; isNewDay: boolean }) {
  const open = (): void => openEvent(event);
  return (
    <div class={`ev-row${isNew ? " arrived" : ""}${isNewDay ? " new-day" : ""}`} role="row" aria-rowindex={index + 1} onClick={open}>
      <span class="ev-when num" role="cell"><time dateTime={event.at} title={full(event.at)}><span class="ev-day">{day(event.at)}</span> {clockSeconds(event.at)}</time></span>
      <span class="ev-kind" role="cell"><button type="button" class="ev-open" onClick={open}><code class={`family-${event.kind.split(".")[0]}`}>{event.kind}</code></button></span>
      <span class="ev-who" role="cell" title={plain(event.agent ?? event.actor)}><Words text={unmarked(event.agent ? shownName(event.agent) : event.actor)} /></span>
      <span class={event.text ? "ev-what" : "ev-what faint"} role="cell"><Words text={event.text || event.excerpt || gist(event)} /></span>
    </div>
  );
}

function None({ model, filter }: { model: EventsModel; filter: Filter }) {
  if (model.loading.value) return <Waiting lines={10} />;
  if (model.error.value) return null;
  const isFiltered = pairs(filter).length > 0;
  return <Empty title={isFiltered ? "No event matches these filters" : "No events yet at this time"} hint={isFiltered ? "Remove a filter, or choose a longer period. New matches appear here." : "Move the time slider forward, or return to live."} />;
}

function isNewDay(rows: readonly FoundEvent[], index: number): boolean {
  const [above, here] = [rows[index - 1], rows[index]];
  return above !== undefined && here !== undefined && day(above.at) !== day(here.at);
}

function rowHeight(box: HTMLElement): number {
  return Number.parseFloat(getComputedStyle(box).getPropertyValue("--row")) || 34;
}

export const page: Page = { path: "events", title: "Events", key: "e", icon: "M4 6h16M4 12h16M4 18h16", view: Events };
