import { useState } from "preact/hooks";

import { useWidth } from "../charts/size";
import { labelled } from "../charts/stacked";
import type { GoalPage } from "../api/types";
import { count } from "../ui/times";
import { CALLED, figure, linesOf, type Line } from "./goals-model";

const [LEFT, RIGHT, TOP, BOTTOM, HEIGHT] = [38, 10, 10, 24, 220];
const STEPS = [0, 0.25, 0.5, 0.75, 1];

/** What is left of each budget after every turn, in parts of the whole: what falls fastest runs out first. */
export function Burn({ goal }: { goal: GoalPage }) {
  const lines = linesOf(goal.burn, goal.limits);
  if (goal.burn.length === 0 || lines.length === 0) return null;
  return (
    <figure class="burn">
      <figcaption>
        <h3>What is left</h3>
        <ul class="burn-legend">{lines.map(({ axis }) => <li key={axis}><span class={`burn-swatch of-${axis}`} />{CALLED[axis]}</li>)}</ul>
      </figcaption>
      <Chart goal={goal} lines={lines} />
    </figure>
  );
}

function Chart({ goal, lines }: { goal: GoalPage; lines: readonly Line[] }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const [pointed, point] = useState<number | null>(null);
  const many = goal.burn.length + 1;
  const slot = Math.max(0, width - LEFT - RIGHT) / Math.max(1, many - 1);
  const x = (index: number): number => LEFT + index * slot;
  const y = (part: number): number => TOP + (HEIGHT - TOP - BOTTOM) * (1 - part);
  const near = (at: number): number => Math.min(many - 1, Math.max(0, Math.round((at - LEFT) / Math.max(slot, 1))));
  const step = (by: number): void => point(Math.min(many - 1, Math.max(0, (pointed ?? (by > 0 ? -1 : many)) + by)));
  const shown = pointed === null || pointed >= many ? null : pointed;
  return (
    <div class="chart" ref={box}>
      <svg width={width} height={HEIGHT} role="img" aria-label="What is left of each budget, turn by turn. Arrows go from turn to turn." tabIndex={0}
        onPointerMove={(event) => point(near(event.offsetX))} onPointerLeave={() => point(null)} onBlur={() => point(null)}
        onKeyDown={(event) => {
          if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
          event.preventDefault();
          step(event.key === "ArrowLeft" ? -1 : 1);
        }}>
        {STEPS.map((part) => (
          <g key={part} class="chart-step">
            <line x1={LEFT} x2={Math.max(LEFT, width - RIGHT)} y1={Math.round(y(part)) + 0.5} y2={Math.round(y(part)) + 0.5} />
            <text x={LEFT - 8} y={y(part) + 4} text-anchor="end">{part * 100}%</text>
          </g>
        ))}
        {shown !== null && <line class="burn-pointed" x1={x(shown)} x2={x(shown)} y1={TOP} y2={HEIGHT - BOTTOM} />}
        {width > 0 && lines.map(({ axis, left }) => (
          <g key={axis} class={`burn-line of-${axis}`}>
            <path d={left.map((part, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(part).toFixed(1)}`).join("")} />
            <circle cx={x(many - 1)} cy={y(left.at(-1) ?? 1)} r="3" />
          </g>
        ))}
        {labelled(many, slot).map((index) => (
          <text key={index} class="chart-label" x={x(index)} y={HEIGHT - 6} text-anchor={index === many - 1 ? "end" : index === 0 ? "start" : "middle"}>{nameOf(goal, index)}</text>
        ))}
      </svg>
      {shown !== null && (
        <div class="chart-tip" role="status" style={shown > many / 2 ? { right: `${width - x(shown) + 10}px` } : { left: `${x(shown) + 10}px` }}>
          <Tip goal={goal} lines={lines} index={shown} />
        </div>
      )}
    </div>
  );
}

function nameOf(goal: GoalPage, index: number): string {
  if (index === 0) return "start";
  return index === goal.burn.length ? (goal.outcome === null ? "now" : "end") : `turn ${count(goal.burn[index - 1]?.turn ?? 0)}`;
}

function Tip({ goal, lines, index }: { goal: GoalPage; lines: readonly Line[]; index: number }) {
  const point = goal.burn[index - 1];
  return (
    <>
      <p class="chart-tip-head">{nameOf(goal, index)}<span class="num">left of it</span></p>
      <ul>
        {lines.map(({ axis }) => {
          const limit = goal.limits[axis] ?? 0;
          return <li key={axis}><span class={`burn-swatch of-${axis}`} />{CALLED[axis]}<span class="num">{figure(axis, Math.max(0, limit - (point?.[axis] ?? 0)))}</span></li>;
        })}
      </ul>
    </>
  );
}
