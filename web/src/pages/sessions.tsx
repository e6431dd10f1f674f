import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { useView } from "../moment";
import { go, href, rest, useParam } from "../router";
import type { FleetAnswer, Outcome, SessionsAnswer } from "../api/types";
import "../styles/sessions.css";
import { Ago } from "../ui/ago";
import { Empty } from "../ui/empty";
import { plain } from "../ui/hostile";
import { unmarked } from "../ui/markdown";
import { follow, openSession, SessionLink } from "../ui/session-link";
import { Trouble, Waiting } from "../ui/state";
import { clock, day, length, usd, zone } from "../ui/times";
import { Words } from "../ui/words";
import { groups } from "./now-order";
import type { Page } from "./page";
import { SessionPage } from "./session";
import { StatusMark, factsOf, isLeftOpen, statusOf, worstOf } from "./session-status";

const PAGE = 100;
const MOST = 1000;

const FILTERS: Record<string, (outcome: Outcome) => boolean> = {
  all: () => true,
  needs: (outcome) => statusOf(outcome).kind === "needs you",
  open: isLeftOpen,
  working: (outcome) => statusOf(outcome).kind === "working",
  stuck: (outcome) => ["stuck", "silent"].includes(statusOf(outcome).kind),
  flagged: (outcome) => factsOf(outcome).some(([kind]) => kind !== "note"),
  delivered: (outcome) => outcome.delivered.commits.length + outcome.delivered.pull_requests.length > 0,
};
const FILTER_WORDS: readonly (readonly [string, string])[] = [["all", "All"], ["needs", "Needs you"], ["open", "Not answered"], ["working", "Working"], ["stuck", "Stuck or silent"], ["flagged", "Flagged"], ["delivered", "Delivered"]];

function hasWords(outcome: Outcome, text: string): boolean {
  const whole = [outcome.name, outcome.headline, outcome.person, outcome.repo, outcome.branch, outcome.session, outcome.program, outcome.asked].join("\n").toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => whole.includes(word));
}

function Row({ outcome, isChosen }: { outcome: Outcome; isChosen: boolean }) {
  const element = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isChosen) element.current?.scrollIntoView({ block: "nearest" });
  }, [isChosen]);
  const isWaiting = statusOf(outcome).kind === "needs you";
  const worst = worstOf(outcome);
  // The worst stands beside the status.
  const facts = factsOf(outcome).filter(([, word]) => word !== worst?.[1]);
  return (
    <li ref={element} class={`sl-row ${statusOf(outcome).kind.replace(" ", "-")}`} aria-current={isChosen || undefined}>
      <SessionLink session={outcome.session} class="sl-link">
        <span class="sl-status"><StatusMark outcome={outcome} /></span>
        <span class="sl-main">
          <span class="sl-name"><Words text={unmarked(outcome.name)} /></span>
          <span class="sl-result"><Words text={unmarked((isWaiting && outcome.question) || outcome.outcome || outcome.headline)} /></span>
        </span>
        <span class="sl-warn">{facts.slice(0, 3).map(([kind, word]) => <span key={word} class={`sl-flag ${kind}`}>{word}</span>)}</span>
        <span class="sl-where"><Words text={[outcome.person, outcome.repo].filter(Boolean).join(" · ")} /><span class="faint"><Words text={outcome.branch} /></span></span>
        <span class="sl-cost num">{usd(outcome.usd)}<span class="faint">{length(outcome.active_seconds)}</span></span>
        <span class="sl-when num">{outcome.ended && <><Ago at={outcome.ended} suffix /><span class="faint">{day(outcome.ended)}, {clock(outcome.ended)}</span></>}</span>
      </SessionLink>
    </li>
  );
}

/** Who else waits or works: goals and agents of a town are no sessions, and Now counts them, too. */
function Others({ sessions, filter }: { sessions: readonly Outcome[]; filter: string }) {
  const { data } = useView<FleetAnswer>("/api/fleet");
  if (!data) return null;
  const listed = new Set(sessions.map((outcome) => outcome.session));
  const outside = groups(data.agents).filter(({ agent }) => !listed.has(agent.session ?? "")).map(({ agent }) => agent);
  const names = (standing: string): string[] => outside.filter((agent) => agent.standing === standing).map((agent) => agent.shown);
  const waiting = filter === "working" ? [] : [...names("needs you"), ...data.asking.map(({ mission }) => `mission ${mission}`)];
  const working = filter === "needs" ? [] : names("working");
  const listOf = (found: readonly string[]): string => found.slice(0, 3).join(", ") + (found.length > 3 ? ` and ${found.length - 3} more` : "");
  const link = (standing: string, said: string) => <a class={standing === "needs you" ? "needs" : undefined} href={href("now", { standing })} onClick={(click) => follow(click, () => go("now", { standing }))}>{said}</a>;
  if (waiting.length + working.length === 0) return null;
  return (
    <p class="sl-others">
      Outside of these sessions {waiting.length > 0 && <>{link("needs you", waiting.length === 1 ? "1 needs you" : `${waiting.length} need you`)} (<Words text={listOf(waiting)} />)</>}
      {waiting.length > 0 && working.length > 0 && " and "}
      {working.length > 0 && <>{link("working", working.length === 1 ? "1 works" : `${working.length} work`)} (<Words text={listOf(working)} />)</>}
    </p>
  );
}

function choices(sessions: readonly Outcome[], field: "person" | "repo"): string[] {
  return [...new Set(sessions.flatMap((outcome) => outcome[field] ?? []))].sort();
}

function Choice({ label, field, sessions }: { label: string; field: "person" | "repo"; sessions: readonly Outcome[] }) {
  const [value, set] = useParam(field);
  const found = choices(sessions, field);
  if (found.length < 2 && !value) return null;
  return (
    <select class="field" aria-label={label} value={value} onChange={(change) => set(change.currentTarget.value)}>
      <option value="">{label}: all</option>
      {found.map((one) => <option key={one} value={one}>{plain(one, 60)}</option>)}
    </select>
  );
}

/** Moves through rows with j and k, opens with Enter. */
function useRowKeys(sessions: readonly Outcome[]): number {
  const [chosen, choose] = useState(-1);
  const latest = useRef({ sessions, chosen });
  latest.current = { sessions, chosen };
  useEffect(() => {
    const pressed = (press: KeyboardEvent): void => {
      if (press.ctrlKey || press.metaKey || press.altKey || (press.target as HTMLElement).closest("input, textarea, select, dialog, .drawer")) return;
      const { sessions: list, chosen: at } = latest.current;
      const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[press.key];
      const one = list[at];
      if (step !== undefined) choose(Math.max(0, Math.min(list.length - 1, at + step)));
      else if (press.key === "Enter" && one && document.activeElement?.tagName !== "A" && document.activeElement?.tagName !== "BUTTON") openSession(one.session);
      else return;
      press.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  return chosen;
}

function SessionsList() {
  const [most, show] = useState(PAGE);
  const { data, error, stale } = useView<SessionsAnswer>("/api/sessions", { limit: most }, 2000);
  const [text, find] = useParam("q");
  const [filter, choose] = useParam("show", "all");
  const [person] = useParam("person");
  const [repo] = useParam("repo");
  const all = data?.sessions ?? [];
  const found = useMemo(() => all.filter((outcome) => (FILTERS[filter] ?? FILTERS["all"] as (outcome: Outcome) => boolean)(outcome) && (!person || outcome.person === person) && (!repo || outcome.repo === repo) && hasWords(outcome, text)), [all, filter, person, repo, text]);
  const chosen = useRowKeys(found);
  if (!data) return error ? <Trouble error={error} /> : <Waiting lines={8} />;
  return (
    <div class={stale ? "stale" : undefined}>
      <div class="sl-tools">
        <div class="switch" role="group" aria-label="Show only">
          {FILTER_WORDS.map(([value, word]) => {
            const many = all.filter(FILTERS[value] as (outcome: Outcome) => boolean).length;
            return <button key={value} type="button" aria-pressed={filter === value} onClick={() => choose(value)}>{word} <span class="num faint">{many}{value === "all" && data.more ? "+" : ""}</span></button>;
          })}
        </div>
        <Choice label="Person" field="person" sessions={all} />
        <Choice label="Repository" field="repo" sessions={all} />
        <input class="field" type="search" placeholder="Filter: name, repository, branch…" aria-label="Filter sessions" value={text} onInput={(input) => find(input.currentTarget.value)} />
      </div>
      {error && <Trouble error={error} />}
      {["all", "needs", "working"].includes(filter) && <Others sessions={all} filter={filter} />}
      {found.length === 0 && (all.length === 0
        ? <Empty title="No sessions yet" hint="Run `lore setup` to record your coding agents and to import their sessions. What else is in the log is under Events."><button type="button" class="button" onClick={() => go("events")}>Events</button></Empty>
        : <Empty title="No session matches" hint={data.more ? "Only the newest sessions are loaded. Load more below, or change the filter." : "Change the filter."} />)}
      {found.length > 0 && <div class="sl-heads" aria-hidden="true"><span>Status</span><span>Session and result</span><span>Person, repository</span><span class="num">Cost, active time</span><span class="num">Last event ({zone})</span></div>}
      <ol class="sl-list">{found.map((outcome, index) => <Row key={outcome.session} outcome={outcome} isChosen={index === chosen} />)}</ol>
      {data.more && most < MOST && <button type="button" class="button wide" onClick={() => show(Math.min(MOST, most * 3))}>Load older sessions</button>}
    </div>
  );
}

function Sessions() {
  const name = rest.value;
  return name ? <SessionPage key={name} name={name} /> : <SessionsList />;
}

export const page: Page = {
  path: "sessions", title: "Sessions", key: "s", view: Sessions,
  icon: "M4 6h16M4 12h16M4 18h10",
};
