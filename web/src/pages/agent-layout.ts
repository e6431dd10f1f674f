/** Where the nodes of a graph stand: from left to right as data goes, so that a turn is a wave from one side to the other. */

import type { GraphShape } from "../api/types";

export interface Place {
  x: number;
  y: number;
}

export const COLUMN = 82;
/** Neighbours stand higher and lower in turn: so each may be wider than its column, and ways can be told apart. Where several share a column they stand closer. */
export const STEPS = { wide: 105, close: 56 } as const;

/** Each node's column: one behind the last that gives it data. What works after the reply stands behind all that work for it, and who neither
 *  takes nor gives any data below whom it speaks to first. */
function columnsOf(graph: GraphShape): Map<string, number> {
  const all = graph.edges.filter((edge) => edge.type === "data" && edge.source !== edge.target);
  const turn = all.filter((edge) => !edge.after);
  const columns = new Map(graph.nodes.map((node) => [node.name, 0]));
  // A path has at most as many steps as there are nodes; graphs with a ring among their data are refused before they come here.
  for (let step = 0; step < graph.nodes.length; step += 1) {
    for (const { source, target } of turn) columns.set(target, Math.max(columns.get(target) ?? 0, (columns.get(source) ?? 0) + 1));
  }
  const last = Math.max(...columns.values());
  for (const { name } of graph.nodes) {
    if (turn.some((edge) => edge.source === name || edge.target === name)) continue;
    const heard = graph.edges.filter((edge) => edge.source === name).map((edge) => columns.get(edge.target) ?? 0);
    columns.set(name, all.some((edge) => edge.target === name) ? last + 1 : Math.min(last, ...heard));
  }
  return columns;
}

/** The middle of every node; data runs along the upper rows, who only whispers stands in the last one. */
export function placesOf(graph: GraphShape): Map<string, Place> {
  const columns = columnsOf(graph);
  const speaks = new Set(graph.edges.filter((edge) => edge.type === "data").flatMap((edge) => [edge.source, edge.target]));
  const step = new Set(columns.values()).size < columns.size ? STEPS.close : STEPS.wide;
  const used = new Map<number, number>();
  const place = ({ name }: { name: string }): [string, Place] => {
    const column = columns.get(name) ?? 0;
    const row = used.get(column) ?? 0;
    used.set(column, row + 1);
    return [name, { x: column * COLUMN, y: (2 * row + (column % 2)) * step }];
  };
  const inOrder = [...graph.nodes].sort((a, b) => Number(speaks.has(b.name)) - Number(speaks.has(a.name)));
  return new Map(inOrder.map(place));
}
