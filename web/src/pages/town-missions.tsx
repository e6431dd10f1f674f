import type { ComponentChildren } from "preact";

import { href, params, setParams } from "../router";
import type { MissionPage, TownAnswer, TownMission } from "../api/types";
import { Ago } from "../ui/ago";
import { clock, count, counted, day } from "../ui/times";
import { Words } from "../ui/words";
import { Graph } from "./town-graph";
import { MISSION_SIGNS, STAND_WORDS, called, partsOf } from "./town-model";
import { AskBack, HowToSteer, Line, Refused, maySteer, mayWrite, useAsk } from "./town-steer";

/** Opens a mission where it is, unless a tab of its own is wanted; the one that is open it closes. */
export function MissionLink({ id, children, class: extra, current }: { id: string; children: ComponentChildren; class?: string; current?: boolean }) {
  return (
    <a class={extra} href={href("town", { mission: id })} aria-current={current ? "true" : undefined} onClick={(click) => {
      if (click.metaKey || click.ctrlKey || click.shiftKey || click.button !== 0) return;
      click.preventDefault();
      setParams({ mission: current ? null : id, more: null }, "push");
    }}>{children}</a>
  );
}

function MissionMark({ mission }: { mission: TownMission }) {
  return <span class={`town-mark mission-${mission.state}`}><span class="town-sign" aria-hidden="true">{MISSION_SIGNS[mission.state]}</span>{mission.is_archived ? "archived" : mission.state}</span>;
}

function Bar({ mission }: { mission: TownMission }) {
  const parts = partsOf(mission);
  const said = parts.map(({ stand, many }) => `${many} ${STAND_WORDS[stand]}`).join(", ");
  return <span class="town-bar" role="img" aria-label={said} title={said}>{parts.map(({ stand, many }) => <span key={stand} class={stand} style={{ flexGrow: many }} />)}</span>;
}

function Row({ mission, here }: { mission: TownMission; here: boolean }) {
  return (
    <li>
      <MissionLink id={mission.id} class={`town-mission mission-${mission.state}`} current={here}>
        <span class="town-mission-top"><MissionMark mission={mission} /><Ago at={mission.moved_at} /></span>
        <span class="town-mission-what"><Words text={mission.title || mission.id} /></span>
        {mission.items > 0 && <Bar mission={mission} />}
        <span class="town-mission-foot faint num">{mission.items > 0 ? `${count(mission.by_state.done)} of ${counted(mission.items, "item")} done` : "No items"}{mission.stuck > 0 && <strong class="town-stuck">, {count(mission.stuck)} {mission.stuck === 1 ? "needs" : "need"} a person</strong>}</span>
      </MissionLink>
    </li>
  );
}

function Steer({ mission }: { mission: MissionPage }) {
  const asking = useAsk();
  const wish = (action: string, reason = "") => asking.ask("missions", { mission: mission.id, action, ...(reason ? { reason } : {}) });
  return (
    <div class="town-steer">
      {maySteer() ? (
        <div class="steer-buttons">
          {mission.can.includes("pause") && <button type="button" class="button" disabled={asking.busy} onClick={() => void wish("pause")}>Pause</button>}
          {mission.can.includes("resume") && <button type="button" class="button primary" disabled={asking.busy} onClick={() => void wish("resume")}>Resume</button>}
          {mission.can.includes("fail") && <AskBack word="Stop" label="Stop it?" question="No more of it is begun." busy={asking.busy} act={(reason) => wish("fail", reason)} />}
          {mission.can.includes("archive") && <AskBack word="Archive" label="Archive it?" question="It is put away; the log keeps all of it." busy={asking.busy} act={(reason) => wish("archive", reason)} />}
        </div>
      ) : <HowToSteer />}
      {mayWrite() && <Line label="Leave a note" hint="Leave a note…" word="Note" busy={asking.busy} send={(text) => asking.ask("notes", { mission: mission.id, text })} />}
      <Refused asking={asking} />
    </div>
  );
}

function Notes({ mission }: { mission: MissionPage }) {
  if (mission.notes.length === 0) return null;
  return (
    <section>
      <h3>Notes</h3>
      <ul class="town-notes">{mission.notes.map((note) => <li key={note.id}><span class="faint"><Words text={note.by || "somebody"} />, <Ago at={note.at} />:</span> <Words text={note.text} /></li>)}</ul>
    </section>
  );
}

function Watches({ mission }: { mission: MissionPage }) {
  if (mission.watches.length === 0) return null;
  return (
    <section>
      <h3>Watched for</h3>
      <ul class="town-notes">{mission.watches.map((watch) => (
        <li key={watch.id}><span class="town-watch">{watch.state === "done" ? "✓" : watch.state === "snoozed" ? "‖" : "◎"} {watch.state}</span> {called(watch.type)} <Words text={watch.target} />{watch.item && <span class="faint"> for <Words text={watch.item} /></span>}{watch.triggered > 0 && <span class="faint num"> told {counted(watch.triggered, "time")}</span>}</li>
      ))}</ul>
      {mission.watches_left_out > 0 && <p class="faint num">{count(mission.watches_left_out)} more not shown</p>}
    </section>
  );
}

function Mission({ mission }: { mission: MissionPage }) {
  return (
    <article class="town-open" aria-label="The mission">
      <header>
        <p class="row"><MissionMark mission={mission} /><code class="faint"><Words text={mission.id} /></code></p>
        <h3 class="town-title"><Words text={mission.title || mission.id} /></h3>
        {mission.reason && <p class="town-why"><Words text={mission.reason} /></p>}
        <p class="town-policy faint">
          {mission.at && <span>began {day(mission.at)}, {clock(mission.at)}</span>}
          {mission.items > 0 && (
            <>
              <span>{mission.max_parallel} at once</span>
              <span>{mission.needs_review ? "reviewed by others" : "no reviews"}</span>
              {mission.watches_pulls && <span>done when merged</span>}
              <span>{mission.tries === 1 ? "tried once" : `tried up to ${mission.tries} times`}</span>
            </>
          )}
        </p>
      </header>
      {mission.work.length > 0 ? <Graph key={mission.id} mission={mission} /> : <p class="faint">No items: only its state is reported.</p>}
      <Steer mission={mission} />
      <Notes mission={mission} />
      <Watches mission={mission} />
    </article>
  );
}

/** Missions side by side, and all of the one that is chosen. */
export function Missions({ town, start }: { town: TownAnswer; start: ComponentChildren }) {
  const wanted = params.value.get("mission");
  const chosen = wanted && town.mission?.id === wanted ? town.mission : null;
  const left = town.missions_total - town.missions.length;
  return (
    <section class="town-part" aria-label="Missions">
      <h2>Missions <span class="faint num">{town.missions_total}</span>{start}</h2>
      {town.missions_total === 0 && <p class="faint">No active missions.</p>}
      <ul class="town-missions">{town.missions.map((mission) => <Row key={mission.id} mission={mission} here={mission.id === wanted} />)}</ul>
      {left > 0 && <p class="faint num">{counted(left, "more mission")} not shown</p>}
      {town.archived > 0 && <p class="faint num">{counted(town.archived, "mission")} archived</p>}
      {chosen && <Mission mission={chosen} />}
    </section>
  );
}
