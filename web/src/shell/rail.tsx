import { now } from "../clock";
import { connection, lostSince } from "../live";
import { lastAt, meta } from "../meta";
import { entries, entryOf, more, type Entry as NavEntry, type Page } from "../pages";
import { go, href } from "../router";
import { follow } from "../ui/session-link";
import { clockSeconds, counted, date } from "../ui/times";
import { Words } from "../ui/words";
import { Drawn } from "./icons";
import { needed } from "./watch";

function Entry({ entry, here }: { entry: NavEntry; here: boolean }) {
  const path = entry.pages[0]?.path ?? "";
  const badge = path === "now" && needed.value > 0 ? needed.value : 0;
  return (
    <a class="rail-entry" href={href(path)} aria-current={here ? "page" : undefined} onClick={(click) => follow(click, () => go(path))} title={`${entry.title} (${entry.key})`}>
      <Drawn path={entry.icon} size={20} />
      <span class="rail-word">{entry.title}</span>
      {badge > 0 && <span class="badge num" aria-label={`${badge} need you`}>{badge}</span>}
      <kbd aria-hidden="true">{entry.key}</kbd>
    </a>
  );
}

/** The pages of one entry of the navigation, side by side. */
export function SubPages({ here }: { here: Page }) {
  const pages = entryOf(here)?.pages ?? [];
  if (pages.length < 2) return null;
  return (
    <div class="sub-pages" role="group" aria-label="Pages of this part">
      {pages.map((page) => <a key={page.path} href={href(page.path)} aria-current={page === here ? "page" : undefined} onClick={(click) => follow(click, () => go(page.path))}>{page.title}</a>)}
    </div>
  );
}

/** A log without an event for a day is a recording, however well the line to the server works; agents at rest are hidden after the same time. */
const RECORDING_AFTER = 24 * 3_600_000;

/** When the newest event was, if that is so long ago that nothing here is live; else null. */
export function endOfRecording(): string | null {
  return lastAt.value !== null && now.value - Date.parse(lastAt.value) > RECORDING_AFTER ? lastAt.value : null;
}

const SAID = { live: "Live", connecting: "Connecting", lost: "Disconnected" } as const;

export function ConnectionMark() {
  const state = connection.value;
  const since = lostSince.value;
  const end = state === "live" ? endOfRecording() : null;
  return (
    <span class={`connection ${end ? "recording" : state}`} role="status" title={end ? `Last event ${date(end)}` : undefined}>
      <span class="connection-dot" aria-hidden="true" />
      {end ? <span class="connection-end">Last event {date(end)}</span> : SAID[state]}{state === "lost" && since !== null && <span class="num"> since {clockSeconds(since)}</span>}
    </span>
  );
}

export function Rail({ here }: { here: Page }) {
  const known = meta.value;
  return (
    <nav class="rail" aria-label="Pages">
      <div class="rail-head">
        <span class="sign" aria-hidden="true"><svg viewBox="0 0 32 32" width="26" height="26"><path d="M8 23V9.5H20M8 16h8" /><circle cx="23" cy="22" r="3.4" /></svg></span>
        <div class="rail-names">
          <strong>Fleetlore</strong>
          {known && known.town !== "default" && <Words class="town" text={known.town} />}
        </div>
      </div>
      <div class="rail-pages">{entries.map((entry) => <Entry key={entry.title} entry={entry} here={entry.pages.includes(here)} />)}</div>
      <div class="rail-more">
        <p class="rail-heading" id="rail-more">More</p>
        {more.map((entry) => <Entry key={entry.title} entry={entry} here={entry.pages.includes(here)} />)}
      </div>
      <div class="rail-foot">
        <ConnectionMark />
        {known && <p class="num faint">{counted(known.events, "event")}</p>}
        {known && <p class="faint">Version {known.version}</p>}
      </div>
    </nav>
  );
}
