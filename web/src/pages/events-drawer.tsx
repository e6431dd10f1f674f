import { token } from "../api";
import { useFixed } from "../fixed";
import { go } from "../router";
import type { EventsAnswer, LoreEvent } from "../api/types";
import { Copy } from "../ui/copy";
import { closeDrawer, openDrawer } from "../ui/drawer";
import { Json } from "../ui/json";
import { Trouble } from "../ui/state";
import { full } from "../ui/times";
import { Words } from "../ui/words";
import { curlToPost, visibleJson } from "./events-curl";
import { gist, scopesOf } from "./events-filter";

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
      {event.cause && <Cause key={event.cause} id={event.cause} />}
      <div class="ev-copies">
        <Copy text={visibleJson(stored, 2)} label="Copy JSON" />
        <Copy text={curlToPost(location.origin, stored)} label="Copy as curl: post it" />
        {!token.value && <span class="faint">The command needs LORE_TOKEN: <code>lore token create --scope write</code> makes one.</span>}
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

/** The event that led to it, one click away. */
function Cause({ id }: { id: string }) {
  const { data, error, loading } = useFixed<EventsAnswer>("/api/events", { id: [id] });
  const found = data?.events[0];
  return (
    <section class="ev-cause">
      <h3>Caused by</h3>
      {error && <Trouble error={error} />}
      {found && (
        <button type="button" onClick={() => openEvent(found)}>
          <code>{found.kind}</code> <strong><Words text={found.agent ?? found.actor} /></strong> <Words text={found.text || gist(found)} />
        </button>
      )}
      {!found && !error && <p class="faint">{loading ? "Looking it up…" : "The log no longer has it: it was trimmed or forgotten."}</p>}
    </section>
  );
}
