import { useEffect, useMemo, useState } from "preact/hooks";

import { getText, type Params } from "../api";
import { now } from "../clock";
import { asOf, useView } from "../moment";
import { go, href, params, setParams, useParam } from "../router";
import type { BriefAnswer, CostsAnswer, FleetAnswer, SessionsAnswer } from "../api/types";
import "../styles/brief.css";
import { CopyFrom } from "../ui/copy";
import { Empty } from "../ui/empty";
import { plain } from "../ui/hostile";
import { Trouble, Waiting } from "../ui/state";
import { unmarked } from "../ui/markdown";
import { usd, zone } from "../ui/times";
import { Words } from "../ui/words";
import { useBrief, type ShownBrief } from "./brief-hooks";
import { addDays, boundsOf, dayOf, daysAsked, dayTitle, periodQuery, periodTitle } from "./brief-period";
import { BriefSections, SECTIONS, StoryPart, sectionsOf, type Sections } from "./brief-sections";
import type { Page } from "./page";

/** What stands beside the text is not asked for more often than the text. */
const USUAL_PAUSE = 4000;
const MOST_NAMES = 300;
/** Sums of rounded prices differ by less. */
const LEAST_DIFFERENCE = 0.01;

const NO_PERIOD = { day: null, last: null, from: null, to: null };

/** Goes to another period; the filter stays. */
function choose(period: Record<string, string>): void {
  setParams({ ...NO_PERIOD, ...period }, "push");
}

function useDays(today: string): [string, string] | null {
  const given = (name: string): string => params.value.get(name) ?? "";
  return daysAsked({ day: given("day"), last: given("last"), from: given("from"), to: given("to") }, today);
}

function Filter() {
  const [scope, setScope] = useParam("scope");
  const [text, setText] = useState(scope);
  useEffect(() => setText(scope), [scope]);
  const submit = (sent: Event): void => {
    sent.preventDefault();
    const name = text.trim();
    setScope(name && !name.includes(":") && name !== "town" ? `agent:${name}` : name, "push");
  };
  return (
    <form onSubmit={submit} role="search">
      <input class="field" type="search" aria-label="Only this agent, task or session" placeholder="Filter by agent, session or task" value={text}
        onInput={(input) => {
          setText(input.currentTarget.value);
          if (!input.currentTarget.value) setScope("", "push");
        }} />
    </form>
  );
}

function Range({ days, today }: { days: [string, string] | null; today: string }) {
  const [first, end] = days ?? [addDays(today, -6), today];
  return (
    <span class="row brief-range">
      <label>From <input class="field" type="date" value={first} max={end} onChange={(change) => change.currentTarget.value && choose({ from: change.currentTarget.value, to: end })} /></label>
      <label>to <input class="field" type="date" value={end} min={first} onChange={(change) => change.currentTarget.value && choose({ from: first, to: change.currentTarget.value })} /></label>
    </span>
  );
}

function DayButton({ day, label, today, children }: { day: string | null; label: string; today: string; children: string }) {
  const said = day ? `${label}: ${dayTitle(day, today)}` : `${label}: none`;
  return (
    <button type="button" class="button icon" disabled={day === null} aria-label={said} title={said} onClick={() => day && choose({ day })}>{children}</button>
  );
}

function Tools({ answer, days, today }: { answer: BriefAnswer | null; days: [string, string] | null; today: string }) {
  const [isOpen, setOpen] = useState(false);
  const shownDay = answer?.days.shown ?? null;
  const asked = params.value;
  return (
    <div class="tools brief-tools">
      <div class="row" role="group" aria-label="Period">
        <DayButton day={answer?.days.previous ?? null} label="Previous day with sessions" today={today}>‹</DayButton>
        <DayButton day={answer?.days.next ?? null} label="Next day with sessions" today={today}>›</DayButton>
        <button type="button" class="button small" aria-pressed={shownDay === today} onClick={() => choose({ day: today })}>Today</button>
        <button type="button" class="button small" aria-pressed={asked.get("last") === "7"} onClick={() => choose({ last: "7" })}>Last 7 days</button>
        <button type="button" class="button small" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>Other dates…</button>
      </div>
      {isOpen && <Range days={days ?? (shownDay ? [shownDay, shownDay] : null)} today={today} />}
      <Filter />
    </div>
  );
}

/** How many lines ask for something, with a way to each. */
function Summary({ sections }: { sections: Sections }) {
  const asking = (["needs_you", "left_open", "check_this", "went_wrong"] as const).flatMap((wanted) => SECTIONS.filter(([name]) => name === wanted && sections[name].length > 0));
  if (asking.length === 0) return null;
  return (
    <p class="brief-summary">
      {asking.map(([name, heading]) => (
        <a key={name} class={`brief-jump ${name.replace("_", "-")}`} href={`#${name}`}
          onClick={(click) => {
            click.preventDefault();
            document.getElementById(name)?.scrollIntoView({ block: "start" });
          }}>
          {heading} <span class="num">{sections[name].length}</span>
        </a>
      ))}
    </p>
  );
}

function Nothing({ answer, today }: { answer: BriefAnswer; today: string }) {
  const { previous, next } = answer.days;
  const near = previous ?? next;
  const [scope] = useParam("scope");
  if (near) {
    return (
      <Empty title="No sessions" hint={scope ? `Only ${plain(scope)} is shown.` : "Nothing was recorded in this period."}>
        <button type="button" class="button" onClick={() => choose({ day: near })}>Go to {dayTitle(near, today)}</button>
      </Empty>
    );
  }
  return (
    <Empty title="No sessions yet" hint="The brief sums up recorded sessions of coding agents, and tasks. Run `lore setup` to record yours and to import the last days. What else is in the log is on these pages:">
      {["timeline", "events"].map((page) => (
        <a key={page} class="button" href={href(page)} onClick={(click) => {
          click.preventDefault();
          go(page);
        }}>{page === "events" ? "Events" : "Timeline"}</a>
      ))}
    </Empty>
  );
}

function isEmpty(sections: Sections, story: ShownBrief["story"]): boolean {
  return SECTIONS.every(([name]) => sections[name].length === 0) && (story === null || story.paragraphs.length === 0);
}

/** What Costs counts in the same days, where that is not what the sessions cost. */
function AllUsage({ days, usd: billed }: { days: [string, string]; usd: number | null }) {
  const total = useView<CostsAnswer>("/api/costs", { by: "day", ...boundsOf(days), tz: zone }, USUAL_PAUSE).data?.total.usd;
  if (!total || Math.abs(total - (billed ?? 0)) < LEAST_DIFFERENCE) return null;
  return <p class="faint bill-note">All usage on these days, also outside of these sessions: {usd(total)}.</p>;
}

/** The names that the sessions of these days have on all pages. */
function useNames(days: [string, string]): ReadonlyMap<string, string> {
  const sessions = useView<SessionsAnswer>("/api/sessions", { ...boundsOf(days), limit: MOST_NAMES }, USUAL_PAUSE).data?.sessions;
  return useMemo(() => new Map((sessions ?? []).map((outcome) => [outcome.session, unmarked(outcome.name)])), [sessions]);
}

function BriefText({ shown, title, days, asked, today }: { shown: ShownBrief; title: string; days: [string, string]; asked: Params; today: string }) {
  const { brief } = shown.brief;
  const names = useNames(days);
  const agents = useView<FleetAnswer>("/api/fleet").data?.agents;
  const needing = agents?.flatMap((agent) => (agent.standing === "needs you" ? agent.session ?? [] : [])).sort().join("\n");
  const sections = useMemo(() => sectionsOf(brief, needing === undefined ? null : new Set(needing.split("\n"))), [brief, needing]);
  const nothing = isEmpty(sections, shown.story);
  return (
    <article class="brief" aria-label={title}>
      <header class="brief-head">
        <h2>{title}</h2>
        {nothing ? null : <><p class="bill"><Words text={brief.bill.text} /></p>{!asked["scope"] && <AllUsage days={days} usd={brief.bill.usd ?? null} />}</>}
      </header>
      {nothing ? <Nothing answer={shown.brief} today={today} /> : (
        <>
          <Summary sections={sections} />
          <BriefSections sections={sections} names={names} />
          <p class="row brief-copy">
            <CopyFrom label="Copy as Markdown" read={() => getText("/api/brief", { ...asked, as_of: asOf.peek(), format: "markdown" })} />
            <CopyFrom label="Copy for chat" read={() => getText("/api/brief", { ...asked, as_of: asOf.peek(), format: "chat" })} />
          </p>
          {shown.story && <StoryPart story={shown.story} names={names} />}
        </>
      )}
    </article>
  );
}

function BriefPage() {
  const today = dayOf(new Date(now.value));
  const [scope] = useParam("scope");
  const days = useDays(today);
  const asked: Params = { ...periodQuery(days), tz: zone, ...(scope ? { scope } : {}) };
  const { shown, stale, error, isOutdated, update } = useBrief(asked);
  const shownDay = shown?.brief.days.shown;
  const shownDays = shown && stale ? null : (days ?? (shownDay ? ([shownDay, shownDay] as [string, string]) : null));
  const textDays: [string, string] = shownDays ?? (shownDay ? [shownDay, shownDay] : [today, today]);
  const title = shownDays ? periodTitle(shownDays) : shown?.brief.brief.title ?? "";
  return (
    <>
      <Tools answer={shown?.brief ?? null} days={days} today={today} />
      {isOutdated && <p class="brief-updated" role="status"><button type="button" class="button primary small" onClick={update}>Updated: show the newest</button></p>}
      {error && <Trouble error={error} />}
      {shown ? <div class={stale ? "stale" : undefined}><BriefText shown={shown} title={title} days={textDays} asked={asked} today={today} /></div> : !error && <Waiting lines={9} />}
    </>
  );
}

export const page: Page = {
  path: "brief", title: "Brief", key: "b", view: BriefPage,
  icon: "M6 3.5h9l3.5 3.5v13.5H6zM9 10h6M9 13.5h6M9 17h4",
};
