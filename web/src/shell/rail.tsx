import { connection, lostSince } from "../live";
import { meta } from "../meta";
import { pages, type Page } from "../pages";
import { go, href } from "../router";
import { clockSeconds, counted } from "../ui/times";
import { Words } from "../ui/words";
import { Drawn } from "./icons";
import { needed } from "./watch";

function follow(click: MouseEvent, page: Page): void {
  if (click.metaKey || click.ctrlKey || click.shiftKey || click.button !== 0) return;
  click.preventDefault();
  go(page.path);
}

function Entry({ page, here }: { page: Page; here: boolean }) {
  const badge = page.path === "fleet" && needed.value > 0 ? needed.value : 0;
  return (
    <a class="rail-entry" href={href(page.path)} aria-current={here ? "page" : undefined} onClick={(click) => follow(click, page)} title={`${page.title} (${page.key})`}>
      <Drawn path={page.icon} size={20} />
      <span class="rail-word">{page.title}</span>
      {badge > 0 && <span class="badge num" aria-label={`${badge} need you`}>{badge}</span>}
      <kbd aria-hidden="true">{page.key}</kbd>
    </a>
  );
}

const SAID = { live: "Live", connecting: "Connecting", lost: "Lost" } as const;

export function ConnectionMark() {
  const state = connection.value;
  const since = lostSince.value;
  return (
    <span class={`connection ${state}`} role="status">
      <span class="connection-dot" aria-hidden="true" />
      {SAID[state]}{state === "lost" && since !== null && <span class="num"> since {clockSeconds(since)}</span>}
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
          <Words class="town" text={known?.town} />
        </div>
      </div>
      <div class="rail-pages">{pages.map((page) => <Entry key={page.path} page={page} here={page === here} />)}</div>
      <div class="rail-foot">
        <ConnectionMark />
        {known && <p class="num faint">{counted(known.events, "event")}</p>}
        {known && <p class="faint">{known.version}{!known.sealed && <span title="Whoever can write to the log can say anything in it"> · not sealed</span>}</p>}
      </div>
    </nav>
  );
}
