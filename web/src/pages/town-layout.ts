/** Where the items of a mission stand, drawn in layers: each to the right of all that it waits for, lines as straight as a few sweeps make them. */

export interface Knot {
  id: string;
  depends_on: readonly string[];
}

interface Spot {
  id: string;
  layer: number;
  x: number;
  y: number;
}

interface Edge {
  from: string;
  to: string;
  path: string;
}

export interface Drawing {
  spots: Spot[];
  edges: Edge[];
  width: number;
  height: number;
}

export const WIDE = 160;
export const HIGH = 62;
const GAP_X = 34;
const GAP_Y = 16;
/** A line that passes a layer takes less room there than an item. */
const LANE = 14;
const SWEEPS = 6;
const EDGE = 8;

/** One place in a layer: an item, or a line that passes. */
interface Place {
  key: string;
  item: string | null;
  layer: number;
  before: Place[];
  after: Place[];
  y: number;
}

/** How far from the beginning each item stands: one further than the furthest that it waits for. What waits in a circle counts as it is met. */
export function layersOf(knots: readonly Knot[]): Map<string, number> {
  const known = new Map(knots.map((knot) => [knot.id, knot]));
  const layers = new Map<string, number>();
  const open = new Set<string>();
  const left: { id: string; leave: boolean }[] = [];
  for (const knot of knots) left.push({ id: knot.id, leave: false });
  left.reverse();
  while (left.length > 0) {
    const { id, leave } = left.pop() as { id: string; leave: boolean };
    const needed = known.get(id)?.depends_on.filter((one) => known.has(one) && one !== id) ?? [];
    if (leave) {
      layers.set(id, Math.max(-1, ...needed.map((one) => layers.get(one) ?? -1)) + 1);
    } else if (!layers.has(id) && !open.has(id)) {
      open.add(id);
      left.push({ id, leave: true }, ...needed.map((one) => ({ id: one, leave: false })));
    }
  }
  return layers;
}

function placed(knots: readonly Knot[], layers: Map<string, number>): { columns: Place[][]; items: Map<string, Place>; ways: { from: string; to: string; through: Place[] }[] } {
  const items = new Map<string, Place>();
  const columns: Place[][] = [];
  const put = (place: Place): Place => {
    (columns[place.layer] ??= []).push(place);
    return place;
  };
  for (const { id } of knots) items.set(id, put({ key: id, item: id, layer: layers.get(id) ?? 0, before: [], after: [], y: 0 }));
  const ways = knots.flatMap((knot) =>
    [...new Set(knot.depends_on)].flatMap((from) => {
      const start = items.get(from);
      const end = items.get(knot.id);
      if (!start || !end || start.layer >= end.layer) return [];
      const through = Array.from({ length: end.layer - start.layer - 1 }, (_, step) =>
        put({ key: `${from}\n${knot.id}\n${step}`, item: null, layer: start.layer + step + 1, before: [], after: [], y: 0 }));
      const all = [start, ...through, end];
      all.slice(1).forEach((place, step) => {
        place.before.push(all[step] as Place);
        (all[step] as Place).after.push(place);
      });
      return [{ from, to: knot.id, through }];
    }),
  );
  return { columns, items, ways };
}

const high = (place: Place): number => (place.item === null ? LANE : HIGH);

function stack(column: Place[]): void {
  let y = 0;
  for (const place of column) {
    place.y = y + high(place) / 2;
    y += high(place) + GAP_Y;
  }
}

/** Orders a layer by where its neighbours on one side stand, in the middle. */
function sweep(column: Place[], side: "before" | "after"): void {
  const wish = new Map(column.map((place) => {
    const near = place[side];
    return [place, near.length === 0 ? place.y : near.reduce((sum, one) => sum + one.y, 0) / near.length];
  }));
  column.sort((one, other) => (wish.get(one) as number) - (wish.get(other) as number));
  stack(column);
}

function centred(columns: Place[][]): number {
  const heights = columns.map((column) => column.reduce((sum, place) => sum + high(place) + GAP_Y, -GAP_Y));
  const most = Math.max(0, ...heights);
  columns.forEach((column, index) => {
    const shift = (most - (heights[index] as number)) / 2;
    for (const place of column) place.y += shift;
  });
  return most;
}

const leftOf = (layer: number): number => EDGE + layer * (WIDE + GAP_X);

function pathOf(points: readonly [number, number][]): string {
  return points.map(([x, y], index) => {
    if (index === 0) return `M${x} ${y}`;
    const [fromX, fromY] = points[index - 1] as [number, number];
    const middle = (fromX + x) / 2;
    return `C${middle} ${fromY} ${middle} ${y} ${x} ${y}`;
  }).join("");
}

/** The drawing of a mission. Always the same for the same items. */
export function drawn(knots: readonly Knot[]): Drawing {
  const { columns, items, ways } = placed(knots, layersOf(knots));
  columns.forEach(stack);
  for (let turn = 0; turn < SWEEPS; turn += 1) {
    const side = turn % 2 === 0 ? "before" : "after";
    for (const column of side === "before" ? columns.slice(1) : columns.slice(0, -1).reverse()) sweep(column, side);
  }
  const height = centred(columns);
  const middle = (place: Place): number => Math.round(place.y) + EDGE;
  const edges = ways.map(({ from, to, through }) => {
    const start = items.get(from) as Place;
    const end = items.get(to) as Place;
    const points: [number, number][] = [[leftOf(start.layer) + WIDE, middle(start)]];
    for (const one of through) points.push([leftOf(one.layer), middle(one)], [leftOf(one.layer) + WIDE, middle(one)]);
    points.push([leftOf(end.layer), middle(end)]);
    return { from, to, path: pathOf(points) };
  });
  const spots = [...items.values()].map((place) => ({ id: place.key, layer: place.layer, x: leftOf(place.layer), y: middle(place) - HIGH / 2 }));
  return { spots, edges, width: Math.max(0, columns.length * (WIDE + GAP_X) - GAP_X) + 2 * EDGE, height: height + 2 * EDGE };
}
