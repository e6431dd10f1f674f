/** Where the nodes of a graph stand: from left to right as data goes, so that a turn is a wave from one side to the other. */

import type { GraphShape } from "../shapes-graph";

export interface Place {
  x: number;
  y: number;
}

export const COLUMN = 128;
export const ROW = 74;

/** Each node's column: one behind the last that gives it data. Who neither takes nor gives any stands below whom it speaks to first. */
function columnsOf(graph: GraphShape): Map<string, number> {
  const data = graph.edges.filter((edge) => edge.type === "data" && edge.source !== edge.target);
  const columns = new Map(graph.nodes.map((node) => [node.name, 0]));
  // A path has at most as many steps as there are nodes; graphs with a ring among their data are refused before they come here.
  for (let step = 0; step < graph.nodes.length; step += 1) {
    for (const { source, target } of data) columns.set(target, Math.max(columns.get(target) ?? 0, (columns.get(source) ?? 0) + 1));
  }
  for (const node of graph.nodes) {
    if (data.some((edge) => edge.source === node.name || edge.target === node.name)) continue;
    const heard = graph.edges.filter((edge) => edge.source === node.name).map((edge) => columns.get(edge.target) ?? 0);
    columns.set(node.name, heard.length > 0 ? Math.min(...heard) : 0);
  }
  return columns;
}

/** The middle of every node; data runs along the upper rows, who only whispers stands in the last one. */
export function placesOf(graph: GraphShape): Map<string, Place> {
  const columns = columnsOf(graph);
  const speaks = new Set(graph.edges.filter((edge) => edge.type === "data").flatMap((edge) => [edge.source, edge.target]));
  const many = new Map<number, number>();
  for (const node of graph.nodes) if (speaks.has(node.name)) many.set(columns.get(node.name) ?? 0, (many.get(columns.get(node.name) ?? 0) ?? 0) + 1);
  const highest = Math.max(1, ...many.values());
  const places = new Map<string, Place>();
  const used = new Map<string, number>();
  for (const node of graph.nodes) {
    const column = columns.get(node.name) ?? 0;
    const whispers = !speaks.has(node.name);
    const key = `${column}${whispers ? "w" : ""}`;
    const nth = used.get(key) ?? 0;
    used.set(key, nth + 1);
    const top = whispers ? highest : (highest - (many.get(column) ?? 1)) / 2;
    places.set(node.name, { x: column * COLUMN, y: (top + nth) * ROW });
  }
  return places;
}
