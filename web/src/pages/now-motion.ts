import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import { calm } from "../theme";

const MOST_MOVING = 60;
const EASE = { duration: 320, easing: "cubic-bezier(.2,.7,.2,1)" };

type Places = Map<string, { left: number; top: number }>;

function placesOf(grid: HTMLElement): Places {
  const cards = [...grid.querySelectorAll<HTMLElement>("[data-agent]")].slice(0, MOST_MOVING);
  return new Map(cards.map((card) => [card.dataset["agent"] ?? "", { left: card.offsetLeft, top: card.offsetTop }]));
}

function move(grid: HTMLElement, before: Places, after: Places): void {
  for (const card of grid.querySelectorAll<HTMLElement>("[data-agent]")) {
    const name = card.dataset["agent"] ?? "";
    const from = before.get(name);
    const to = after.get(name);
    if (to && !from) card.animate([{ opacity: 0 }, { opacity: 1 }], EASE);
    if (!from || !to || (from.left === to.left && from.top === to.top)) continue;
    card.animate([{ transform: `translate(${from.left - to.left}px, ${from.top - to.top}px)` }, { transform: "none" }], EASE);
  }
}

/** Cards glide to their new places when the order changes, and only then. */
export function useGentleMoves(order: string): RefObject<HTMLDivElement | null> {
  const grid = useRef<HTMLDivElement>(null);
  const before = useRef<Places | null>(null);
  useLayoutEffect(() => {
    if (!grid.current) return;
    const after = placesOf(grid.current);
    if (before.current && !calm.matches) move(grid.current, before.current, after);
    before.current = after;
  }, [order]);
  return grid;
}
