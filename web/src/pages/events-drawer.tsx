import { token } from "../api";
import { go } from "../router";
import type { LoreEvent } from "../shapes";
import { Copy } from "../ui/copy";
import { closeDrawer, openDrawer } from "../ui/drawer";
import { EventsBy, showEvents } from "../ui/events";
import { Json } from "../ui/json";
import { full } from "../ui/times";
import { Words } from "../ui/words";
import { curlToPost, visibleJson } from "./events-curl";
import { scopesOf } from "./events-filter";

/** Opens one event: its JSON, what led to it, where else to look, and how to say it again. */
export function openEvent(event: LoreEvent): void {
  openDrawer(<code>{event.kind}</code>, () => <Whole event={event} />);
}

function Whole({ event }: { event: LoreEvent }) {
  const { excerpt: _excerpt, ...stored } = event;
  const family = `${event.kind.split(".")[0]}.*`;
  return (
    <div class="ev-whole">
      {event.text && <p class="ev-whole-text"><Words text={event.text} /></p>}
      <p class="faint num">{full(event.at)}</p>
      <div class="ev-ways">
        {scopesOf(event).map((scope) => <Way key={scope} name="scope" value={scope} />)}
        <Way name="kind" value={event.kind} />
        <Way name="kind" value={family} />
      </div>
      {event.cause && <Cause id={event.cause} />}
      <div class="ev-copies">
        <Copy text={visibleJson(stored, 2)} label="Copy JSON" />
        <Copy text={curlToPost(location.origin, stored)} label="Copy as curl: post it" />
        {!token.value && <span class="faint">LORE_TOKEN is yours to set: <code>lore token create --scope write</code></span>}
      </div>
      <Json value={stored} />
    </div>
  );
}

/** The list with this filter alone. */
function Way({ name, value }: { name: "scope" | "kind"; value: string }) {
  const follow = (): void => {
    closeDrawer();
    go("events", { [name]: value });
  };
  return <button type="button" class="chip" onClick={follow} title="Show only these"><Words text={value} /></button>;
}

function Cause({ id }: { id: string }) {
  return (
    <section class="ev-cause">
      <h3>What led to it <button type="button" class="button small" onClick={() => showEvents([id], "What led to it")}>Go there</button></h3>
      <EventsBy params={{ id: [id] }} />
    </section>
  );
}
