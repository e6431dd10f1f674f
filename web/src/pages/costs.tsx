import { useComputed } from "@preact/signals";
import type { ComponentChildren } from "preact";

import { dollars, niceSteps, share } from "../charts/figures";
import { StackedBars } from "../charts/stacked";
import { midnight, said } from "../charts/ticks";
import { now } from "../clock";
import { useView } from "../moment";
import { useParam } from "../router";
import type { CostRow, CostsAnswer, Figures } from "../api/types";
import { AgentName } from "../ui/agent";
import { Empty } from "../ui/empty";
import { unmarked } from "../ui/markdown";
import { SessionLink } from "../ui/session-link";
import { Trouble, Waiting } from "../ui/state";
import { Switch } from "../ui/switch";
import { clock, compact, count, counted, day, zone } from "../ui/times";
import { Words } from "../ui/words";
import { OTHERS, barsOf, localDay, modelOf, newestDay, noon, type Bar, type Measure } from "./costs-days";
import { daysOf, rangeOf, sinceOf, unpricedOf, type Range } from "./costs-range";
import type { Page } from "./page";
import "../styles/costs.css";

const RANGES: readonly (readonly [Range, string])[] = [["today", "Today"], ["7d", "7 days"], ["30d", "30 days"], ["all", "All"]];
const MOST_ROWS = 200;
const MEASURES = [["usd", "Dollars"], ["tokens", "Tokens"]] as const;

function Costs() {
  const [chosen, choose] = useParam("range");
  const [shown, show] = useParam("in", "usd");
  const today = useComputed(() => midnight(now.value)).value;
  const ever = useView<CostsAnswer>("/api/costs", { by: "day", tz: zone });
  const newest = ever.data && newestDay(ever.data.by);
  const isChosen = RANGES.some(([one]) => one === chosen);
  const range: Range = isChosen ? (chosen as Range) : rangeOf(newest ? noon(newest) : null, today);
  const measure: Measure = shown === "tokens" ? "tokens" : "usd";
  const since = sinceOf(range, today);
  const [chosenBy, chooseBy] = useParam("by", "project");
  const by = (BY.find(([one]) => one === chosenBy) ?? BY[0])[0];
  const agents = useView<CostsAnswer>("/api/costs", { by, since, tz: zone });
  const models = useView<CostsAnswer>("/api/costs", { by: "model", since, tz: zone });
  const days = useView<CostsAnswer>("/api/costs", { by: "day,model", since: sinceOf(daysOf(range), today), tz: zone });
  const error = ever.error ?? agents.error ?? models.error ?? days.error;
  if (!(ever.data || isChosen) || !agents.data || !models.data || !days.data) return error ? <Trouble error={error} /> : <Waiting lines={8} />;
  const isEmpty = agents.data.total.tokens === 0 && !agents.data.total.usd;
  return (
    <section class="costs">
      <div class="costs-tools">
        <Switch label="Which days" options={RANGES} value={range} choose={choose} />
        <Switch label="What to add up" options={MEASURES} value={measure} choose={show} />
        <p class="faint">Days in {zone}</p>
      </div>
      {error && <Trouble error={error} />}
      {!isChosen && range !== "7d" && newest && ever.data?.caught_up && <p class="faint costs-hint">No costs in the last {range === "all" ? "30" : "7"} days. The newest are of {day(noon(newest))}.</p>}
      <Totals total={agents.data.total} days={range === "today" ? 1 : barsOf(days.data.by, "tokens", localDay(today)).days} />
      <Dearest since={since} />
      <Budgets answer={agents.data} />
      <Unpriced unpriced={unpricedOf(agents.data.unpriced)} prices={agents.data.prices} />
      <Days rows={days.data.by} measure={measure} last={(range === "all" && newest) || localDay(today)} range={range} />
      {isEmpty ? <NothingSpent range={range} ever={ever.data} showAll={() => choose("all")} /> : (
        <div class="costs-tables">
          <Table title={`By ${wordOf(by)}`} rows={agents.data.by} measure={measure} total={agents.data.total} name={(row) => nameOf(by, row)}
            tools={<><Switch label="Add up by" options={BY} value={by} choose={chooseBy} />{by === "agent" && <p class="faint costs-hint">Sub-agents have rows of their own. The cost of a session includes them.</p>}</>} />
          <Table title="By model" rows={models.data.by} measure={measure} total={models.data.total} name={(row) => <Words text={modelOf(row)} />} />
        </div>
      )}
    </section>
  );
}

/** No costs in these days: when there were some, or, if never, where they come from. */
function NothingSpent({ range, ever, showAll }: { range: Range; ever: CostsAnswer | null; showAll: () => void }) {
  const newest = ever && newestDay(ever.by);
  if (range !== "all" && newest) {
    return (
      <Empty title={range === "today" ? "No costs today" : "No costs in these days"} hint={`The newest costs are of ${day(noon(newest))}; the total is ${sum(ever.total)}.`}>
        <button type="button" class="button" onClick={showAll}>Show all days</button>
      </Empty>
    );
  }
  return (
    <Empty title="No costs yet"
      hint="Costs come from the replies of models. Run `lore setup` to record Claude Code and Codex, or send OpenTelemetry to /v1/traces." />
  );
}

function sum(total: Figures): string {
  return total.usd === null ? counted(total.tokens, "token") : dollars(total.usd);
}

const BY = [["project", "Project"], ["session", "Session"], ["person", "Person"], ["pull_request", "Pull request"], ["agent", "Agent"], ["day", "Day"], ["week", "Week"], ["month", "Month"]] as const;
type By = (typeof BY)[number][0];

function wordOf(by: By): string {
  return by.replace("_", " ");
}

function nameOf(by: By, row: CostRow): ComponentChildren {
  if (by === "agent") return agentOf(row);
  const key = row[by];
  if (typeof key !== "string" || !key) return <span class="faint">no {wordOf(by)}</span>;
  if (by === "session") return <SessionLink session={key}><Words text={unmarked(row.name ?? key)} /></SessionLink>;
  return <Words text={key} />;
}

function windowOf(minutes: number): string {
  const hours = Math.round(minutes / 60);
  return hours >= 48 ? `${Math.round(hours / 24)}-day` : `${hours}-hour`;
}

/** What cost the most: the project and the session. */
function Dearest({ since }: { since: string | null }) {
  const projects = useView<CostsAnswer>("/api/costs", { by: "project", since, tz: zone }).data;
  const sessions = useView<CostsAnswer>("/api/costs", { by: "session", since, tz: zone }).data;
  const project = projects && dearestOf(projects.by, "project");
  const session = sessions && dearestOf(sessions.by, "session");
  if (!project && !session) return null;
  return (
    <p class="costs-most">
      Most expensive: {project && <>project <strong>{nameOf("project", project)}</strong> <span class="num">{dollars(project.usd)}</span></>}{project && session && "; "}
      {session && <>session <strong>{nameOf("session", session)}</strong> <span class="num">{dollars(session.usd)}</span></>}
    </p>
  );
}

function dearestOf(rows: readonly CostRow[], by: By): CostRow | undefined {
  return rows.filter((row) => row[by] && row.usd).sort((a, b) => (b.usd ?? 0) - (a.usd ?? 0))[0];
}

/** Whether a limit still counts what it counted when it was reported: its window has not ended. */
function isCurrent(limit: CostsAnswer["limits"][number]): boolean {
  return (limit.resets_at ? Date.parse(limit.resets_at) : Date.parse(limit.at) + limit.window_minutes * 60_000) > now.value;
}

/** Budgets and plan limits: how much is used, and whether that is too much. */
function Budgets({ answer }: { answer: CostsAnswer }) {
  const limits = answer.limits.filter(isCurrent);
  if (answer.budgets.length + limits.length === 0) {
    return <p class="faint costs-hint">No budget is set. Add one to fleetlore.toml, for example: <code>[budget]</code> <code>day = 20</code></p>;
  }
  return (
    <ul class="costs-budgets">
      {answer.budgets.map((budget) => {
        const used = budget.used_usd / budget.limit_usd;
        const state = used >= 1 ? "over" : used >= 0.8 || budget.expected_usd > budget.limit_usd ? "near" : "";
        return (
          <li key={budget.period} class={state} role={state ? "alert" : undefined}>
            <span>{dollars(budget.used_usd)} of {dollars(budget.limit_usd)} this {budget.period}{state === "over" ? ": over budget" : state === "near" ? `: ${dollars(budget.expected_usd)} expected` : ""}</span>
            <meter min={0} max={1} optimum={0} low={0.8} high={0.999} value={Math.min(1, used)} aria-label={`Budget of this ${budget.period}`} />
          </li>
        );
      })}
      {limits.map((limit) => (
        <li key={limit.provider + limit.window_minutes} class={limit.used_percent >= 80 ? "near" : ""}>
          <span>{limit.provider && <><Words text={limit.provider} />: </>}{Math.round(limit.used_percent)} % of the {windowOf(limit.window_minutes)} limit <span class="faint">as of {day(limit.at)}, {clock(limit.at)}{limit.resets_at ? `; resets ${day(limit.resets_at)}, ${clock(limit.resets_at)}` : ""}</span></span>
          <meter min={0} max={100} optimum={0} low={80} high={99} value={limit.used_percent} aria-label="Plan limit" />
        </li>
      ))}
    </ul>
  );
}

function agentOf(row: CostRow): ComponentChildren {
  const key = row["agent"];
  return typeof key === "string" && key ? <AgentName name={key} shown={row.name} /> : <span class="faint">no agent</span>;
}

function Totals({ total, days }: { total: Figures; days: number }) {
  return (
    <dl class="costs-totals">
      <div class="costs-sum"><dt>Total, US dollars</dt><dd class="num">{dollars(total.usd)}</dd></div>
      {days > 1 && <div><dt>average per active day</dt><dd class="num">{dollars(total.usd === null ? null : total.usd / days)}</dd></div>}
      <Figure name="input tokens" value={total.input} />
      <Figure name="output tokens" value={total.output} />
      <Figure name="cache read" value={total.cache_read} />
      <Figure name="cache write" value={total.cache_write} />
    </dl>
  );
}

function Unpriced({ unpriced, prices }: { unpriced: [string, number][]; prices: string }) {
  const missing = unpriced.reduce((sum, [, tokens]) => sum + tokens, 0);
  if (missing === 0) return null;
  return (
    <p class="costs-unpriced">
      <strong>{counted(missing, "token")} without a price</strong>, not in the dollars: {unpriced.map(([model, tokens], index) => (
        <span key={model}>{index > 0 && ", "}<Words text={model} /> ({compact(tokens)})</span>
      ))}. Add a price under [prices] in fleetlore.toml. Prices as of {prices}.
    </p>
  );
}

function Figure({ name, value }: { name: string; value: number }) {
  return <div><dt>{name}</dt><dd class="num" title={`${count(value)} tokens`}>{compact(value)}</dd></div>;
}

function Days({ rows, measure, last: end, range }: { rows: readonly CostRow[]; measure: Measure; last: string; range: Range }) {
  const { bars, models, most } = barsOf(rows, measure, end, range === "30d" ? 30 : 7);
  if (most === 0) return null;
  const format = measure === "usd" ? dollars : compact;
  const last = bars.length - 1;
  const stacks = bars.map((bar, index) => ({ key: bar.day, label: dayLabel(bar), parts: bar.parts, sum: bar.sum, aside: range === "today" && index < last }));
  const axis = measure === "usd" && (niceSteps(most)[1] ?? 0) >= 1 ? (value: number) => `$${compact(value)}` : format;
  return (
    <figure class="costs-days">
      <figcaption>
        <h2>{bars[0]?.days === 7 ? "By week" : "By day"} and model</h2>
        <ul class="costs-legend">{models.map((model, index) => <li key={model}><span class={`swatch series-${index + 1}`} />{model === OTHERS ? OTHERS : <Words text={model} />}</li>)}</ul>
      </figcaption>
      <StackedBars stacks={stacks} format={axis} label={`${measure === "usd" ? "US dollars" : "Tokens"} by day, stacked by model. Arrows go from day to day.`} height={190}
        tip={(index) => <DayTip bar={bars[index] as Bar} models={models} format={format} />} />
    </figure>
  );
}

function dayLabel(bar: Bar): string {
  return said(noon(bar.day), { day: "numeric", month: "short" });
}

function DayTip({ bar, models, format }: { bar: Bar; models: readonly string[]; format: (value: number) => string }) {
  return (
    <>
      <p class="chart-tip-head">{bar.days === 7 && "week of "}{day(noon(bar.day))}<span class="num">{format(bar.sum)}</span></p>
      <ul>
        {models.map((model, index) => (bar.parts[index] ?? 0) > 0 && (
          <li key={model}><span class={`swatch series-${index + 1}`} /><Words text={model} /><span class="num">{format(bar.parts[index] ?? 0)}</span></li>
        ))}
      </ul>
    </>
  );
}

interface TableOf {
  readonly title: string;
  readonly rows: readonly CostRow[];
  readonly measure: Measure;
  readonly total: Figures;
  readonly name: (row: CostRow) => ComponentChildren;
  readonly tools?: ComponentChildren;
}

function Table({ title, rows, measure, total, name, tools }: TableOf) {
  const value = (row: CostRow): number => (measure === "usd" ? row.usd : row.tokens) ?? 0;
  const sorted = [...rows].sort((a, b) => value(b) - value(a) || b.tokens - a.tokens);
  const most = Math.max(0, ...sorted.map(value));
  return (
    <section class="costs-table">
      <h2>{title}</h2>
      {tools}
      <div class="costs-scroll" tabIndex={0} role="group" aria-label={`Costs ${title.toLowerCase()}`}>
        <table>
          <thead><tr><th scope="col">{title.slice(3)}</th><th scope="col">USD</th><th scope="col">input</th><th scope="col">output</th><th scope="col">cache read</th><th scope="col">cache write</th></tr></thead>
          <tbody>
            {sorted.slice(0, MOST_ROWS).map((row, index) => (
              <tr key={index}>
                <th scope="row"><span class="costs-bar" style={{ width: `${share(value(row), most) * 100}%` }} /><span class="costs-name">{name(row)}</span></th>
                <td title={row.usd === null ? "No price is known" : undefined}>{row.usd === null ? <span class="faint">no price</span> : dollars(row.usd)}</td>
                <Numbers figures={row} />
              </tr>
            ))}
          </tbody>
          <tfoot><tr><th scope="row">Total</th><td>{dollars(total.usd)}</td><Numbers figures={total} /></tr></tfoot>
        </table>
      </div>
    </section>
  );
}

function Numbers({ figures }: { figures: Figures }) {
  return (
    <>
      {[figures.input, figures.output, figures.cache_read, figures.cache_write].map((value, index) => (
        <td key={index} title={count(value)}>{value === 0 ? <span class="faint">–</span> : compact(value)}</td>
      ))}
    </>
  );
}

export const page: Page = { path: "costs", title: "Costs", key: "c", icon: "M12 3v18M16 7.5c0-1.7-1.8-2.5-4-2.5s-4 1-4 3 2 2.8 4 3.3 4 1.5 4 3.4-1.8 3-4 3-4-1-4-2.8", view: Costs };
