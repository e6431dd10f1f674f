import { useComputed } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { standingClass } from "../charts/palette";
import { DAY, HOUR, MINUTE, instant, lengthOf } from "../charts/span";
import { lengthInWords } from "../charts/ticks";
import { asOf } from "../clock";
import { setParams } from "../router";
import { openWork, shownName, useSessions } from "../ui/agent";
import { BeatLegend } from "../ui/beat";
import { SAID } from "../ui/beats";
import { Empty } from "../ui/empty";
import { showEvents } from "../ui/events";
import { plain } from "../ui/hostile";
import { unmarked } from "../ui/markdown";
import { Trouble, Waiting } from "../ui/state";
import { clock, compact, counted, day, zone } from "../ui/times";
import { Words } from "../ui/words";
import type { Page } from "./page";
import { TimelineChart } from "./timeline-chart";
import { TimelineModel } from "./timeline-model";
import type { Hit } from "./timeline-plan";
import { arcWords, type Scene } from "./timeline-scene";
import { Tip } from "./timeline-tip";
import "../styles/timeline.css";

const LENGTHS: readonly (readonly [string, number | "all", string])[] = [
  ["1 m", MINUTE, "one minute"],
  ["15 m", 15 * MINUTE, "fifteen minutes"],
  ["1 h", HOUR, "one hour"],
  ["6 h", 6 * HOUR, "six hours"],
  ["day", DAY, "one day"],
  ["week", 7 * DAY, "one week"],
  ["month", 30 * DAY, "thirty days"],
  ["all", "all", "all that is known"],
];

function Timeline() {
  const model = useMemo(() => new TimelineModel(), []);
  useEffect(() => model.start(), [model]);
  useSessions();
  const begun = useComputed(() => model.span.value !== null);
  if (!begun.value) return model.error.value ? <Trouble error={model.error.value} /> : <Waiting lines={8} />;
  return (
    <section class="timeline">
      <Tools model={model} />
      {model.error.value && <Trouble error={model.error.value} />}
      <Lanes model={model} />
      <Legend scene={model.drawn.value} />
      {model.scene.value && <Counts scene={model.scene.value} />}
    </section>
  );
}

function Tools({ model }: { model: TimelineModel }) {
  const span = model.span.value;
  const only = model.only.value;
  if (!span) return null;
  const length = lengthOf(span);
  const isLive = asOf.value === null;
  return (
    <div class="tl-tools" role="toolbar" aria-label="Period">
      <div class="switch">
        {LENGTHS.map(([word, wanted, spoken]) => (
          <button key={word} type="button" aria-label={`Show ${spoken}`}
            aria-pressed={wanted !== "all" && Math.abs(length / wanted - 1) < 0.02} onClick={() => model.glideTo(wanted)}>{word}</button>
        ))}
      </div>
      <div class="switch">
        <button type="button" aria-label="Zoom out" title="Zoom out (−)" onClick={() => model.zoom(1.7)}>−</button>
        <button type="button" aria-label="Zoom in" title="Zoom in (+)" onClick={() => model.zoom(1 / 1.7)}>+</button>
      </div>
      <button type="button" class="button small tl-follow" aria-pressed={model.follow.value} onClick={() => model.setFollow(!model.follow.value)}>
        <span class="tl-follow-dot" aria-hidden="true" />{isLive ? "Follow now" : "Follow the slider"}
      </button>
      {only !== null && (
        <button type="button" class="chip" title="Show all agents" onClick={() => setParams({ agent: null })}><span class="chip-label">only</span><Words text={only} /> ×</button>
      )}
      <p class="tl-span num faint">{timeOf(span.from)} – {model.follow.value && isLive ? "now" : timeOf(Math.min(span.to, model.present()))} · {lengthInWords(length)} · {zone}</p>
    </div>
  );
}

function timeOf(at: number): string {
  return `${day(at)}, ${clock(at)}`;
}

function Lanes({ model }: { model: TimelineModel }) {
  const scroller = useRef<HTMLDivElement>(null);
  const lanes = useRef<HTMLCanvasElement>(null);
  const axis = useRef<HTMLCanvasElement>(null);
  const [chart, setChart] = useState<TimelineChart | null>(null);
  useEffect(() => {
    if (!scroller.current || !lanes.current || !axis.current) return undefined;
    const made = new TimelineChart(model, scroller.current, lanes.current, axis.current, (hit) => open(model, hit));
    setChart(made);
    return () => made.end();
  }, [model]);
  const scene = model.scene.value;
  return (
    <div class="tl-scroller" ref={scroller}>
      <Corner model={model} />
      <div class="tl-axis"><canvas ref={axis} aria-hidden="true" /></div>
      <div class="tl-names">
        {scene && chart && <Names scene={scene} height={chart.plan.value.lane} />}
      </div>
      <div class="tl-lanes">
        <canvas ref={lanes} tabIndex={0} role="application"
          aria-label={`Timeline of ${scene?.lanes.length ?? 0} agents. Plus and minus zoom, arrows pan, shift and arrows step from mark to mark, enter opens. A table with the same counts follows.`} />
        {chart?.pointed.value && model.drawn.value && <Tip pointed={chart.pointed.value} scene={model.drawn.value} width={chart.plan.value.width} />}
      </div>
      {!scene && !model.error.value && <div class="tl-first"><Waiting lines={6} /></div>}
      {scene?.lanes.length === 0 && <div class="tl-nothing"><Nothing model={model} scene={scene} /></div>}
    </div>
  );
}

/** The day at the left edge: what hours on the axis belong to. */
function Corner({ model }: { model: TimelineModel }) {
  const span = model.span.value;
  return <div class="tl-corner num">{span && day(span.from)}</div>;
}

function Names({ scene, height }: { scene: Scene; height: number }) {
  return (
    <>
      {scene.lanes.map((lane) => (
        <div key={lane.agent} class={lane.total > 0 ? "tl-name" : "tl-name quiet"} style={{ height: `${height}px` }}>
          {lane.agent === "" ? <span class="tl-nobody faint"><Words text={lane.shown} /></span> : (
            <button type="button" onClick={() => openWork(lane.agent)} title={`${plain(shownName(lane.agent, lane.shown))}${lane.standing ? `, ${lane.standing}` : ""}`}>
              <span class={`tl-dot ${standingClass(lane.standing)}`} /><span class="tl-words"><Words text={unmarked(shownName(lane.agent, lane.shown))} /></span>
            </button>
          )}
          {lane.total > 0 && <span class="faint num" title={counted(lane.total, "event")}>{compact(lane.total)}</span>}
        </div>
      ))}
      {scene.moreLanes > 0 && <p class="tl-more faint">and {scene.moreLanes} quieter {scene.moreLanes === 1 ? "agent" : "agents"}</p>}
    </>
  );
}

function Nothing({ model, scene }: { model: TimelineModel; scene: Scene }) {
  const hint = scene.first !== null && scene.last !== null ? `There are events between ${timeOf(scene.first)} and ${timeOf(scene.last)}.` : "";
  return (
    <Empty title="No events in this period" hint={hint}>
      <button type="button" class="button" onClick={() => model.glideTo("all")}>Show everything</button>
    </Empty>
  );
}

function Legend({ scene }: { scene: Scene | null }) {
  return (
    <div class="legend tl-legend faint">
      <BeatLegend />
      <span><span class="tl-mood bright" /><span class="tl-mood dark" /><span class="tl-mood plain" /> patterns: good, bad, in progress</span>
      <span class="tl-hint">{scene?.exact ? "Lines go from cause to effect." : "Each column counts events. Zoom in to see single events."}</span>
    </div>
  );
}

/** The same for those who cannot see the canvas. */
function Counts({ scene }: { scene: Scene }) {
  return (
    <div class="tl-table">
      <table>
        <caption>Events by agent from {instant(scene.from)} to {instant(scene.to)}</caption>
        <thead><tr><th scope="col">Agent</th><th scope="col">State</th>{scene.families.map((family) => <th key={family} scope="col">{SAID[family]}</th>)}<th scope="col">Total</th></tr></thead>
        <tbody>
          {scene.lanes.map((lane, index) => (
            <tr key={lane.agent}>
              <th scope="row"><Words text={shownName(lane.agent, lane.shown)} /></th><td>{lane.standing}</td>
              {scene.families.map((family, place) => <td key={family}>{countOf(scene, index, place)}</td>)}<td>{lane.total}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul>{scene.arcs.map((one) => <li key={one.arc.kind + one.arc.first}>{arcWords(one.arc.kind)}: <Words text={one.arc.text || one.arc.title} /></li>)}</ul>
    </div>
  );
}

function countOf(scene: Scene, lane: number, family: number): number {
  const one = scene.lanes[lane];
  if (!one) return 0;
  if (scene.exact) return one.marks.filter((mark) => mark.family === scene.families[family]).length;
  return one.columns.reduce((sum, column) => sum + (column.counts[family] ?? 0), 0);
}

function open(model: TimelineModel, hit: Hit): void {
  if (hit.what === "mark") return showEvents([hit.mark.id], <code>{hit.mark.kind}</code>);
  if (hit.what === "arc") return showEvents(hit.arc.arc.evidence, <Words text={hit.arc.arc.text || hit.arc.arc.title} />);
  const [scene, span] = [model.drawn.peek(), model.current()];
  if (!scene || !span) return;
  const middle = hit.column.at + scene.step / 2;
  const length = Math.max(lengthOf(span) / 6, scene.step * 4);
  model.glide({ from: middle - length / 2, to: middle + length / 2 });
}

export const page: Page = { path: "timeline", title: "Timeline", key: "t", icon: "M3 6h9M8 12h10M5 18h12", view: Timeline };
