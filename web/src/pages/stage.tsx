import { useMemo, useRef } from "preact/hooks";

import { meta } from "../meta";
import { asOf, useView } from "../moment";
import { go, href, useParam } from "../router";
import type { StageAnswer, StagePlay, StageRun } from "../api/types";
import "../styles/stage.css";
import { Copy } from "../ui/copy";
import { Empty } from "../ui/empty";
import { plain } from "../ui/hostile";
import { Trouble, Waiting } from "../ui/state";
import { clock, compact, count, counted, day, usd } from "../ui/times";
import { Words } from "../ui/words";
import { quoted } from "./events-curl";
import type { Page } from "./page";
import { Cast } from "./stage-cast";
import { keyOf, sceneOf, scriptOf, voicesOf, type Turn } from "./stage-model";
import { Say } from "./stage-say";
import { Script } from "./stage-script";
import { Curtain } from "./stage-verdict";
import { toEnd, usePlace } from "./reading-place";

const SHIPPED = [
  ["the-tin", "The Tin", "Four neighbours must agree what one thing goes into the time capsule. The parish clerk decides."],
  ["monday", "Should the Humans Be Let Back In on Monday?", "An office after hours. Two teams of appliances debate it."],
  ["night-train", "The 23:40 to Varnholt", "Four passengers, one without a ticket. Before the border the guard names one."],
] as const;

/** Of very much that is new, no line arrives: it was there. */
const MOST_NEW = 12;

function Teach() {
  const url = meta.value?.log ?? "";
  const log = url.startsWith("sqlite:") ? ` --log ${/^[\w:./@+=,-]+$/.test(url) ? url : quoted(url)}` : "";
  return (
    <section class="stage-teach">
      <h2>No runs yet</h2>
      <p>A stage runs a scenario with several agents: a debate, a committee, a hidden role. Three examples come with Fleetlore; they need no model and cost nothing.</p>
      <ol>
        {SHIPPED.map(([name, title, about]) => {
          const line = `lore stage run ${name}${log}`;
          return (
            <li key={name}>
              <h3>{title}</h3>
              <p>{about}</p>
              <p class="command"><code>{line}</code><Copy text={line} /></p>
            </li>
          );
        })}
      </ol>
      <p class="faint">Write your own in YAML, for any model: <code>lore stage check my.yaml</code>, then <code>lore stage run my.yaml --mind openai:MODEL</code>.</p>
    </section>
  );
}

function said(run: StageRun): string {
  const state = run.finished ? (run.winner ? `${run.winner} won` : "over") : `turn ${run.turn}`;
  return plain([run.scenario || run.run, run.seed, `${day(run.at)} ${clock(run.at)}`, state].filter(Boolean).join(" · "), 120);
}

function Tools({ answer }: { answer: StageAnswer }) {
  const [run, choose] = useParam("run");
  const [minds, read] = useParam("minds");
  const reads = minds === "true";
  return (
    <div class="tools stage-tools">
      <select class="field" aria-label="Which run" value={run} onChange={(change) => choose(change.currentTarget.value, "push")}>
        <option value="">The newest run</option>
        {run && !answer.runs.some((one) => one.run === run) && <option value={run}>{plain(run, 60)}</option>}
        {answer.runs.map((one) => <option key={one.run} value={one.run}>{said(one)}</option>)}
      </select>
      <button type="button" class="button mind-reader" aria-pressed={reads} onClick={() => read(reads ? "" : "true")}>
        <svg class="icon" width="17" height="17" viewBox="0 0 24 24" aria-hidden="true"><path d={reads ? "M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12zM12 9a3 3 0 1 1 0 6 3 3 0 0 1 0-6z" : "M2.5 10.5s3.5 5 9.5 5 9.5-5 9.5-5M5 14l-1.7 2.5M12 15.5v3M19 14l1.7 2.5"} /></svg>
        {reads ? "Hide private thoughts" : "Show private thoughts"}
      </button>
      {answer.let_go > 0 && <span class="faint num">{counted(answer.let_go, "older run")} only in the log</span>}
    </div>
  );
}

function Figures({ play }: { play: StagePlay }) {
  const { spent, budget } = play;
  const others = play.budgets.filter(({ axis, limit }) => limit !== null && !["turns", "calls", "tokens", "usd", "wall_time"].includes(axis));
  const of = (limit: string | null): string => (limit === null ? "" : ` of ${limit}`);
  return (
    <p class="playbill-figures faint num">
      <span>turn {count(play.turn)}{of(budget.turns === null ? null : count(budget.turns))}</span>
      <span>{counted(play.said, "line")}</span>
      {!!spent.tokens && <span>{compact(spent.tokens)}{of(budget.tokens === null ? null : compact(budget.tokens))} tokens</span>}
      {(!!spent.usd || budget.usd !== null) && <span>{usd(spent.usd ?? 0)}{of(budget.usd === null ? null : usd(budget.usd))}</span>}
      {others.map(({ axis, label, used, limit }) => <span key={axis}>{count(used)} of {count(limit ?? 0)} {label}</span>)}
    </p>
  );
}

function Playbill({ play }: { play: StagePlay }) {
  const scene = sceneOf(play);
  return (
    <header class="playbill">
      {play.seed && <p class="kicker"><Words text={play.scenario || play.run} /> · <Words text={play.seed} /></p>}
      <h2><Words text={play.title || play.scenario || play.run} /></h2>
      {play.goal && <p class="playbill-goal"><Words text={play.goal} /></p>}
      <Figures play={play} />
      {scene && <p class="scene-now"><Words text={scene.text} /></p>}
    </header>
  );
}

/** What was not there when this run was first shown, nor came with many others. */
function useNews(turns: Turn[], live: boolean): ReadonlySet<string> {
  const known = useRef<ReadonlySet<string> | null>(null);
  const news = useRef<ReadonlySet<string>>(new Set());
  return useMemo(() => {
    const keys = turns.flatMap(({ entries }) => entries.map(keyOf));
    const fresh = keys.filter((key) => known.current !== null && !known.current.has(key));
    known.current = new Set([...(known.current ?? []), ...keys]);
    // What was news stays so: the next answer does not cut its entrance short.
    news.current = new Set(live ? [...news.current, ...(fresh.length <= MOST_NEW ? fresh : [])] : []);
    return news.current;
  }, [turns, live]);
}

function Earlier({ play }: { play: StagePlay }) {
  const more = play.said - play.lines.filter((line) => line.kind === "agent.spoke" || line.kind === "oracle.spoke").length;
  if (more <= 0) return null;
  const params = { scope: `run:${play.run}` };
  const open = (click: MouseEvent): void => {
    if (click.metaKey || click.ctrlKey) return;
    click.preventDefault();
    go("events", params);
  };
  return <p class="stage-earlier faint num">{counted(more, "earlier line")} not shown; <a href={href("events", params)} onClick={open}>the log has them</a></p>;
}

function Performance({ play, live }: { play: StagePlay; live: boolean }) {
  const turns = useMemo(() => scriptOf(play), [play]);
  const voices = useMemo(() => voicesOf(play.cast), [play]);
  const news = useNews(turns, live);
  const entries = turns.flatMap((turn) => turn.entries);
  const [first, last] = [entries[0], entries.at(-1)];
  // A play that is over is read from its beginning; one that goes on is joined where it is.
  const unseen = usePlace({ told: play, newest: (last ? keyOf(last) : "") + (play.finished?.id ?? ""), oldest: first ? keyOf(first) : "", atEnd: live && play.finished === null });
  return (
    <>
      <article class="stage" aria-label={plain(play.title || play.run, 80)}>
        <Playbill play={play} />
        <Cast play={play} voices={voices} />
        <div class="script">
          <Earlier play={play} />
          <Script turns={turns} voices={voices} news={news} />
          <Curtain play={play} />
          <Say play={play} />
        </div>
      </article>
      {unseen && <button type="button" class="to-end" onClick={toEnd}>New lines ↓</button>}
    </>
  );
}

function NotThere({ answer, run }: { answer: StageAnswer; run: string }) {
  if (asOf.value !== null) return <Empty title="No runs yet at this time" hint={run ? "This run had not started at this time. Move the time slider forward, or return to live." : "No run had started at this time. Move the time slider forward, or return to live."} />;
  if (answer.runs.length === 0 && !run) return <Teach />;
  return <Empty title="There is no such run" hint="It may be older than those listed here. Its events are still in the log. Choose another run above." />;
}

function Stage() {
  const [run] = useParam("run");
  const [minds] = useParam("minds");
  const { data, error } = useView<StageAnswer>("/api/stage", { run, minds: minds === "true" ? "true" : null });
  if (!data) return error ? <Trouble error={error} /> : <Waiting lines={8} />;
  const empty = data.runs.length === 0 && !run && asOf.value === null;
  return (
    <>
      {!empty && <Tools answer={data} />}
      {error && <Trouble error={error} />}
      {data.play ? <Performance key={data.play.run} play={data.play} live={data.live} /> : <NotThere answer={data} run={run} />}
    </>
  );
}

export const page: Page = {
  path: "stage", title: "Stage", key: "g", view: Stage,
  icon: "M3.5 4.5h17M5 4.5v15M19 4.5v15M5 4.5c0 5 2 8 5 9.5M19 4.5c0 5-2 8-5 9.5M3.5 19.5h17",
};
