import { useState } from "preact/hooks";

import { asOf, useView } from "../moment";
import { go, href, useParam } from "../router";
import type { FleetAnswer, OpenApproval } from "../api/types";
import type { Outcome } from "../api/types";
import "../styles/now.css";
import { nameOf, openWork, StandingMark, useSessions } from "../ui/agent";
import { Ago } from "../ui/ago";
import { Requests, useApprovals } from "../ui/approval";
import { Empty } from "../ui/empty";
import { useHeldFocus } from "../ui/focus";
import { unmarked } from "../ui/markdown";
import { follow } from "../ui/session-link";
import { Trouble, Waiting } from "../ui/state";
import { Switch } from "../ui/switch";
import { usd } from "../ui/times";
import { Words } from "../ui/words";
import { Card, ContextUse, costOf, costTitle, doingOf, shownStanding } from "./now-card";
import { useGentleMoves } from "./now-motion";
import { groups, matches, ordered, type Member } from "./now-order";
import type { Page } from "./page";
import { isLeftOpen, trouble, wordOf, WorstFact } from "./session-status";

const MOST_SHOWN = 120;
/** So few agents have room to say more. */
const FEW = 9;

type Known = ReadonlyMap<string, Outcome>;

function Table({ members, known }: { members: Member[]; known: Known }) {
  return (
    <table class="now-table">
      <thead><tr><th>Agent</th><th>State</th><th>Doing</th><th>Repository</th><th class="num">Context</th><th class="num">Cost</th><th class="num">Last event</th></tr></thead>
      <tbody>
        {members.flatMap(({ agent, helpers }) => [agent, ...helpers].map((one) => {
          const outcome = known.get(one.session ?? "");
          const member = { agent: one, helpers: one === agent ? helpers : [] };
          return (
            <tr key={one.name} class={one.standing.replace(" ", "-")} onClick={() => openWork(one.name)}>
              <td class={one === agent ? "now-who" : "now-who helper"}><button type="button" onClick={() => openWork(one.name)}><Words text={unmarked(nameOf(one, outcome))} /></button></td>
              <td><StandingMark standing={shownStanding(one, outcome)} word={wordOf(one, outcome)} inactive={one.at_rest} /> <WorstFact outcome={one.status === null ? undefined : outcome} /></td>
              <td class="now-doing">{trouble(outcome) && <strong class="now-trouble">{trouble(outcome)} </strong>}<Words text={doingOf(one, outcome)} /></td>
              <td><Words text={[outcome?.repo, outcome?.branch].filter(Boolean).join(" @ ")} /></td>
              <td class="num"><ContextUse outcome={outcome} /></td>
              <td class={one === agent ? "num" : "num faint"} title={one === agent ? costTitle(member) : "Part of the cost above"}>{usd(costOf(member))}</td>
              <td class="num"><Ago at={one.last_seen} suffix /></td>
            </tr>
          );
        }))}
      </tbody>
    </table>
  );
}

function Grid({ members, known, isTable = false }: { members: Member[]; known: Known; isTable?: boolean }) {
  const [most, show] = useState(MOST_SHOWN);
  const shown = members.slice(0, most);
  const grid = useGentleMoves(isTable ? "" : shown.map(({ agent }) => agent.name).join("\n"));
  if (shown.length === 0) return null;
  return (
    <>
      {isTable ? <Table members={shown} known={known} /> : (
        <div class={members.length <= FEW ? "cards few" : "cards"} ref={grid}>
          {shown.map(({ agent, helpers }) => <Card key={agent.name} agent={agent} helpers={helpers} outcome={known.get(agent.session ?? "")} />)}
        </div>
      )}
      {members.length > most && (
        <button type="button" class="button wide" onClick={() => show(most + MOST_SHOWN)}>Show {Math.min(MOST_SHOWN, members.length - most)} more of {members.length - most}</button>
      )}
    </>
  );
}

const WORDS: Partial<Record<Part, string>> = { silent: "stuck or silent", idle: "finished or idle" };

const PARTS = ["needs you", "silent", "working", "idle"] as const;
type Part = (typeof PARTS)[number];

/** The part of the page in which an agent is shown with its sub-agents, as one card. */
function partOf({ agent, helpers }: Member, known: Known): Part {
  if ([agent, ...helpers].some((one) => one.standing === "needs you")) return "needs you";
  const standing = shownStanding(agent, known.get(agent.session ?? ""));
  return standing === "ended" ? "idle" : standing;
}

/** Whether it is folded away: without an event for a day, or ended where there are many. */
function isAway({ agent, helpers }: Member, foldEnded: boolean): boolean {
  return (agent.at_rest || (foldEnded && agent.standing === "ended")) && !helpers.some(({ standing }) => standing === "needs you" || standing === "working");
}

function Counts({ members, asking, known, chosen, choose }: { members: readonly Member[]; asking: number; known: Known; chosen: string; choose: (standing: string) => void }) {
  const counts = new Map<Part, number>([["needs you", asking]]);
  for (const member of members) counts.set(partOf(member, known), (counts.get(partOf(member, known)) ?? 0) + 1);
  const one = (standing: Part) => {
    const many = counts.get(standing) ?? 0;
    const on = chosen === standing;
    return (
      <button key={standing} type="button" class={`count ${standing.replace(" ", "-")} ${many === 0 ? "none" : ""}`} aria-pressed={on} onClick={() => choose(on ? "" : standing)}>
        <span class="count-many num">{many}</span> <span class="count-word">{standing === "needs you" && many !== 1 ? "need you" : WORDS[standing] ?? standing}</span>
      </button>
    );
  };
  const shown = PARTS.filter((standing) => standing === "needs you" || standing === chosen || (counts.get(standing) ?? 0) > 0);
  return <div class="counts" role="group" aria-label="Show only agents that are">{shown.map(one)}</div>;
}

function Asking({ asking }: { asking: FleetAnswer["asking"] }) {
  if (asking.length === 0) return null;
  return (
    <ul class="asking" aria-label="Missions that ask for help">
      {asking.map(({ mission, text, since }) => (
        <li key={mission}>
          <strong>Mission <Words text={mission} /> asks for help</strong> <Words text={text} /> <span class="faint"><Ago at={since} /></span>
        </li>
      ))}
    </ul>
  );
}

function Part({ title, members, known, isTable }: { title: string; members: Member[]; known: Known; isTable: boolean }) {
  if (members.length === 0) return null;
  return (
    <section class="now-part" aria-label={title} style={{ "--many": String(isTable ? 9 : members.length) }}>
      <h2>{title} <span class="num faint">{members.length}</span></h2>
      <Grid members={members} known={known} isTable={isTable} />
    </section>
  );
}

interface NeedsProps {
  members: Member[];
  asking: FleetAnswer["asking"];
  known: Known;
  isTable: boolean;
}

/** Everything that waits for a person: requests that can be answered here, missions, then the agents with anything else. */
function NeedsYou({ members, asking, known, isTable, approvals }: NeedsProps & { approvals: readonly OpenApproval[] }) {
  if (members.length + asking.length + approvals.length === 0) return null;
  const isAnsweredHere = ({ agent, helpers }: Member): boolean => [agent, ...helpers].every((one) => one.standing !== "needs you" || approvals.some((approval) => approval.agent === one.name || (approval.goal !== null && approval.goal === one.goal)));
  const others = isTable ? members : members.filter((member) => !isAnsweredHere(member));
  const isBeside = !isTable && approvals.length > 0 && others.length > 0 && others.length <= 2 * approvals.length;
  return (
    <section class={isBeside ? "now-part needs beside" : "now-part needs"} aria-label="Needs you">
      <h2>Needs you <span class="num faint">{Math.max(members.length + asking.length, approvals.length)}</span></h2>
      <Requests approvals={approvals} />
      <Asking asking={asking} />
      <Grid members={others} known={known} isTable={isTable} />
    </section>
  );
}

function NeedsYouNow(props: NeedsProps) {
  return <NeedsYou {...props} approvals={useApprovals()} />;
}

const LATELY = 7 * 24 * 3_600_000;

/** Nobody waits now; questions that were left open lately are not urgent, and not forgotten. */
function Calm({ isStuck, known, time }: { isStuck: boolean; known: Known; time: number }) {
  const open = [...known.values()].filter((outcome) => isLeftOpen(outcome) && time - Date.parse(outcome.ended ?? "") < LATELY).length;
  const show = { show: "open" };
  return (
    <p class="now-calm">
      <strong>Nobody needs you.</strong>{!isStuck && " No agent is stuck."}
      {open > 0 && <> <a href={href("sessions", show)} onClick={(click) => follow(click, () => go("sessions", show))}>{open === 1 ? "1 question" : `${open} questions`}</a> of the last 7 days had no answer.</>}
    </p>
  );
}

/** Agents that ended, or without an event for a day: folded away. */
function Away({ members, known, opened, isTable }: { members: Member[]; known: Known; opened: boolean; isTable: boolean }) {
  const [open, set] = useState(opened);
  if (members.length === 0) return null;
  const newestFirst = [...members].sort((a, b) => (b.agent.last_seen ?? "").localeCompare(a.agent.last_seen ?? ""));
  return (
    <details class="away-fold" open={open} onToggle={(toggle) => set(toggle.currentTarget.open)}>
      <summary><span class="num">{members.length}</span> {members.some(({ agent }) => agent.at_rest) ? "finished, or without an event for a day" : "finished"}</summary>
      {open && <Grid members={newestFirst} known={known} isTable={isTable} />}
    </details>
  );
}

const LAYOUTS = [["cards", "Cards"], ["table", "Table"]] as const;

function Now() {
  useHeldFocus();
  const { data, error } = useView<FleetAnswer>("/api/fleet");
  const known = useSessions();
  const [text, find] = useParam("q");
  const [chosen, choose] = useParam("standing");
  const standing = chosen === "ended" ? "idle" : chosen;
  const [layout, lay] = useParam("as", localStorage.getItem("fleetlore.now") ?? "cards");
  if (!data) return error ? <Trouble error={error} /> : <Waiting lines={6} />;
  const everyone = groups(ordered(data.agents, Date.parse(data.now)));
  const all = everyone.filter((member) => (!standing || partOf(member, known) === standing) && [member.agent, ...member.helpers].some((agent) => matches(agent, text)));
  const isTable = layout === "table";
  const foldEnded = everyone.length > FEW;
  const members = all.filter((member) => text !== "" || !isAway(member, foldEnded));
  const [needs, stuck, works, others] = PARTS.map((part) => members.filter((member) => partOf(member, known) === part)) as [Member[], Member[], Member[], Member[]];
  const asking = standing === "" || standing === "needs you" ? data.asking : [];
  const part = { known, isTable };
  return (
    <>
      <div class="fleet-tools">
        <Counts members={everyone.filter((member) => !isAway(member, foldEnded))} asking={data.asking.length} known={known} chosen={standing} choose={choose} />
        <Switch label="Layout" value={layout} choose={(value) => {
          localStorage.setItem("fleetlore.now", value);
          lay(value);
        }} options={LAYOUTS} />
        <input class="field" type="search" placeholder="Find an agent, a task…" aria-label="Find an agent" value={text} onInput={(input) => find(input.currentTarget.value)} />
      </div>
      {error && <Trouble error={error} />}
      {all.length === 0 && <Empty title={data.agents.length === 0 ? "No agents yet" : "No agent matches"} hint={data.agents.length === 0 ? "Move the time slider forward, or return to live." : "Change the filter, or click the selected count again."} />}
      {data.caught_up && all.length > 0 && needs.length + asking.length === 0 && !standing && !text && <Calm isStuck={stuck.length > 0} known={known} time={Date.parse(data.now)} />}
      <div class="now-parts">
        {asOf.value === null ? <NeedsYouNow members={needs} asking={asking} {...part} /> : <NeedsYou members={needs} asking={asking} approvals={[]} {...part} />}
        <Part title="Stuck or silent" members={stuck} {...part} />
        <Part title="Working" members={works} {...part} />
        <Part title="Finished or idle" members={others} {...part} />
      </div>
      <Away members={all.filter((member) => !members.includes(member))} opened={members.length < FEW / 2} {...part} />
    </>
  );
}

export const page: Page = {
  path: "now", title: "Now", key: "n", view: Now,
  icon: "M4 5h6.5v6H4zM13.5 5H20v6h-6.5zM4 13.5h6.5v6H4zM13.5 13.5H20v6h-6.5z",
};
