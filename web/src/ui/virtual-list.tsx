import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef } from "preact/hooks";

/** Rows drawn beyond the edges of the screen, in pixels. */
const MARGIN = 500;

interface Places {
  sizes: Float64Array;
  tops: Float64Array;
  total: number;
}

/** Adds up heights from an index on. */
function addUp(places: Places, from: number): void {
  const { sizes, tops } = places;
  let top = from > 0 ? (tops[from - 1] as number) + (sizes[from - 1] as number) : 0;
  for (let index = from; index < sizes.length; index += 1) {
    tops[index] = top;
    top += sizes[index] as number;
  }
  places.total = top;
}

/** Where each row begins. Heights are those that were measured, else guessed once: a guess reads the row's text. */
function place(keys: readonly string[], heights: Map<string, number>, guesses: Map<string, number>, guess: (index: number) => number): Places {
  const sizes = new Float64Array(keys.length);
  for (let index = 0; index < keys.length; index += 1) {
    const key = keys[index] as string;
    let size = heights.get(key) ?? guesses.get(key);
    if (size === undefined) guesses.set(key, (size = guess(index)));
    sizes[index] = size;
  }
  const places = { sizes, tops: new Float64Array(keys.length), total: 0 };
  addUp(places, 0);
  return places;
}

/** The last index whose top is at or before `y`. */
function indexAt(tops: Float64Array, y: number): number {
  let [low, high] = [0, tops.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((tops[middle] as number) <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

export interface ListControl {
  /** Brings a row to a third of the screen. */
  scrollTo(key: string): void;
  scrollToEnd(): void;
  isAtEnd(): boolean;
}

/** A list of any length, of which only what is seen is drawn. Heights are guessed, then measured. The nearest scrolling ancestor `.page` scrolls. */
export function VirtualList({ keys, guess, render, control, turn }: {
  keys: readonly string[];
  guess: (index: number) => number;
  render: (index: number) => ComponentChildren;
  control: { current: ListControl | null };
  /** Draws anew when it changes. */
  turn: unknown;
}) {
  const box = useRef<HTMLDivElement>(null);
  const heights = useRef(new Map<string, number>());
  const guesses = useRef(new Map<string, number>());
  const [version, redraw] = useReducer((many: number, _: unknown) => many + 1, 0);
  const places = useMemo(() => place(keys, heights.current, guesses.current, guess), [keys]);
  const window_ = useRef({ from: 0, to: 30 });
  const target = useRef<{ key: string; until: number } | null>(null);
  const current = useRef({ keys, places });
  current.current = { keys, places };

  const scroller = (): HTMLElement | null => box.current?.closest<HTMLElement>(".page") ?? null;
  /** Where the list begins within what scrolls. */
  const begins = (page: HTMLElement): number => (box.current?.getBoundingClientRect().top ?? 0) - page.getBoundingClientRect().top + page.scrollTop;

  const look = (): void => {
    const page = scroller();
    if (!page || current.current.keys.length === 0) return;
    const { tops } = current.current.places;
    const top = page.scrollTop - begins(page);
    const from = indexAt(tops, top - MARGIN);
    const to = Math.min(current.current.keys.length, indexAt(tops, top + page.clientHeight + MARGIN) + 1);
    if (from !== window_.current.from || to !== window_.current.to) {
      window_.current = { from, to };
      redraw(null);
    }
  };

  const reach = (): void => {
    const page = scroller();
    const wanted = target.current;
    if (!page || !wanted) return;
    const index = current.current.keys.indexOf(wanted.key);
    if (index < 0 || Date.now() > wanted.until) {
      target.current = null;
      return;
    }
    const top = begins(page) + (current.current.places.tops[index] as number) - page.clientHeight / 3;
    if (Math.abs(page.scrollTop - top) > 2) page.scrollTop = top;
  };

  control.current = {
    scrollTo(key) {
      target.current = { key, until: Date.now() + 1500 };
      reach();
      look();
    },
    scrollToEnd() {
      const page = scroller();
      if (page) page.scrollTop = page.scrollHeight;
    },
    isAtEnd() {
      const page = scroller();
      return page !== null && page.scrollHeight - page.scrollTop - page.clientHeight < 80;
    },
  };

  useEffect(() => {
    const page = scroller();
    if (!page) return undefined;
    const seen = (): void => look();
    const taken = (): void => void (target.current = null);
    page.addEventListener("scroll", seen, { passive: true });
    page.addEventListener("wheel", taken, { passive: true });
    page.addEventListener("touchmove", taken, { passive: true });
    addEventListener("resize", seen);
    return () => {
      page.removeEventListener("scroll", seen);
      page.removeEventListener("wheel", taken);
      page.removeEventListener("touchmove", taken);
      removeEventListener("resize", seen);
    };
  }, []);

  const watcher = useMemo(() => new ResizeObserver((entries) => {
    const page = scroller();
    const top = page ? page.scrollTop - begins(page) : 0;
    const { keys: known, places: at } = current.current;
    let [shift, first] = [0, Infinity];
    for (const entry of entries) {
      const element = entry.target as HTMLElement;
      const key = element.dataset["key"] ?? "";
      const height = element.offsetHeight;
      const index = Number(element.dataset["index"]);
      if (!element.isConnected || known[index] !== key) continue;
      heights.current.set(key, height);
      const before = at.sizes[index] as number;
      if (before === height) continue;
      // Rows above what is seen must not push it away.
      if ((at.tops[index] ?? 0) < top) shift += height - before;
      at.sizes[index] = height;
      first = Math.min(first, index);
    }
    if (first === Infinity) return;
    addUp(at, first);
    redraw(null);
    if (page && shift !== 0 && !target.current) page.scrollTop += shift;
  }), []);
  useEffect(() => () => watcher.disconnect(), []);

  useLayoutEffect(() => {
    look();
    reach();
  }, [keys, version]);

  const { from } = window_.current;
  const to = Math.min(window_.current.to, keys.length);
  const shown = useMemo(() => keys.slice(from, to).map((key, offset) => (
    <div key={key} data-key={key} data-index={from + offset} class="v-row" ref={(element) => {
      if (element) watcher.observe(element);
    }}>{render(from + offset)}</div>
  )), [keys, from, to, turn]);
  return (
    <div class="v-list" ref={box} style={{ height: `${places.total}px` }}>
      <div class="v-window" style={{ transform: `translateY(${places.tops[from] ?? 0}px)` }}>{shown}</div>
    </div>
  );
}
