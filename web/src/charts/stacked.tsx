import { useState } from "preact/hooks";

import { niceSteps, share } from "./figures";
import { useWidth } from "./size";

interface Stack {
  readonly key: string;
  /** Written under it, where there is room. */
  readonly label: string;
  readonly parts: readonly number[];
  readonly sum: number;
  /** Outside what the page is about: drawn fainter. */
  readonly aside?: boolean;
}

interface Given {
  readonly stacks: readonly Stack[];
  readonly format: (value: number) => string;
  readonly label: string;
  /** What is said of the one that is pointed at. */
  readonly tip: (index: number) => preact.ComponentChildren;
  readonly height?: number;
}

const LEFT = 52;
const BOTTOM = 24;
const TOP = 10;
const LABEL = 62;

/** Bars of stacked parts, in SVG: sharp, themed by the stylesheet (`.series-1` …), readable by machines. */
export function StackedBars({ stacks, format, label, tip, height = 260 }: Given) {
  const [box, width] = useWidth<HTMLDivElement>();
  const [pointed, point] = useState<number | null>(null);
  const most = Math.max(0, ...stacks.map((stack) => stack.sum));
  const steps = niceSteps(most);
  const top = steps.at(-1) || 1;
  const slot = Math.max(0, width - LEFT) / Math.max(stacks.length, 1);
  const y = (value: number): number => TOP + (height - TOP - BOTTOM) * (1 - share(value, top));
  const near = (x: number): number | null => {
    const index = Math.floor((x - LEFT) / slot);
    return index >= 0 && index < stacks.length ? index : null;
  };
  const step = (by: number): void => point(Math.min(stacks.length - 1, Math.max(0, (pointed ?? (by > 0 ? -1 : stacks.length)) + by)));
  return (
    <div class="chart" ref={box}>
      <svg width={width} height={height} role="img" aria-label={label} tabIndex={0}
        onPointerMove={(event) => point(near(event.offsetX))} onPointerLeave={() => point(null)} onBlur={() => point(null)}
        onKeyDown={(event) => {
          if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
          event.preventDefault();
          step(event.key === "ArrowLeft" ? -1 : 1);
        }}>
        {steps.map((value) => (
          <g key={value} class="chart-step">
            <line x1={LEFT} x2={width} y1={Math.round(y(value)) + 0.5} y2={Math.round(y(value)) + 0.5} />
            <text x={LEFT - 8} y={y(value) + 4} text-anchor="end">{format(value)}</text>
          </g>
        ))}
        {pointed !== null && <rect class="chart-pointed" x={LEFT + pointed * slot} y={TOP} width={slot} height={height - TOP - BOTTOM} />}
        {stacks.map((stack, index) => <Column key={stack.key} stack={stack} x={LEFT + index * slot} slot={slot} y={y} />)}
        {labelled(stacks.length, slot).map((index) => (
          <text key={index} class="chart-label" x={LEFT + (index + 0.5) * slot} y={height - 6} text-anchor="middle">{stacks[index]?.label}</text>
        ))}
      </svg>
      {pointed !== null && (
        <div class="chart-tip" role="status" style={place(pointed, slot, stacks.length, width)}>{tip(pointed)}</div>
      )}
    </div>
  );
}

function place(index: number, slot: number, many: number, width: number): Record<string, string> {
  const gap = 10;
  return index > many / 2 ? { right: `${width - LEFT - index * slot + gap}px` } : { left: `${LEFT + (index + 1) * slot + gap}px` };
}

function Column({ stack, x, slot, y }: { stack: Stack; x: number; slot: number; y: (value: number) => number }) {
  const wide = Math.max(1, Math.min(44, slot * 0.72));
  const left = x + (slot - wide) / 2;
  let below = 0;
  const last = stack.parts.findLastIndex((part) => part > 0);
  return (
    <g class={stack.aside ? "chart-bar aside" : "chart-bar"}>
      {stack.parts.map((part, index) => {
        if (part <= 0) return null;
        const [bottom, top] = [y(below), y((below += part))];
        return <path key={index} class={`series-${index + 1}`} d={block(left, top, wide, Math.max(0.5, bottom - top), index === last)} />;
      })}
    </g>
  );
}

/** A rectangle; the topmost of a stack has rounded shoulders. */
function block(x: number, y: number, wide: number, high: number, isTop: boolean): string {
  const round = isTop ? Math.min(3, wide / 2, high) : 0;
  return `M${x} ${y + high}V${y + round}q0 ${-round} ${round} ${-round}H${x + wide - round}q${round} 0 ${round} ${round}V${y + high}z`;
}

/** Which bars are labelled: every nth, counted from the last. */
export function labelled(many: number, slot: number): number[] {
  const every = Math.max(1, Math.ceil(LABEL / Math.max(slot, 1)));
  return Array.from({ length: many }, (_, index) => index).filter((index) => (many - 1 - index) % every === 0);
}
