/** A graph on a canvas, by Cytoscape.js. Heavy, so it is loaded when a graph is first looked at; the page's own list of nodes says the same in words. */

import cytoscape, { type Core, type StylesheetJson } from "cytoscape";

import type { GraphShape } from "../api/types";
import { calm, cssVar } from "../theme";
import { plain } from "../ui/hostile";
import { placesOf } from "./agent-layout";
import { USER, way, type Step, type Work } from "./agent-model";

/** As long as one step of a wave is seen, in milliseconds; more wait behind it, and then go faster. */
const BEAT = 110;
const GLOW = 420;
const MOST_WAITING = 24;
const STATES = "active done failed";

function looks(): StylesheetJson {
  const ink = cssVar("--ink");
  const font = cssVar("--sans");
  const quick = calm.matches ? "0ms" : "180ms";
  return [
    {
      selector: "node",
      style: {
        shape: "round-rectangle", width: 112, height: 40, label: "data(label)", "text-valign": "center", "text-halign": "center", "text-wrap": "ellipsis", "text-max-width": "104px",
        "font-family": font, "font-size": 17, "font-weight": 600, color: ink, "background-color": cssVar("--panel-2"), "border-width": 1.5, "border-color": cssVar("--line-2"),
        "transition-property": "background-color border-color border-width", "transition-duration": quick as unknown as number, "overlay-opacity": 0,
      },
    },
    { selector: `node[id = '${USER}']`, style: { shape: "ellipse", width: 62, "background-opacity": 0, "border-style": "dashed", "font-weight": 400, color: cssVar("--ink-2") } },
    { selector: "node.done", style: { "border-color": cssVar("--done"), "border-width": 2 } },
    { selector: "node.active", style: { "border-color": cssVar("--working"), "border-width": 3, "background-color": cssVar("--panel-3") } },
    { selector: "node.failed", style: { "border-color": cssVar("--trouble"), "border-width": 3 } },
    { selector: "node.chosen", style: { "outline-width": 2, "outline-color": cssVar("--accent"), "outline-offset": 3 } },
    {
      selector: "edge",
      style: {
        width: 1.4, "line-color": cssVar("--line-2"), "target-arrow-color": cssVar("--line-2"), "target-arrow-shape": "triangle", "arrow-scale": 0.9, "curve-style": "bezier",
        "control-point-step-size": 34, "transition-property": "line-color target-arrow-color width", "transition-duration": quick as unknown as number, "overlay-opacity": 0,
      },
    },
    { selector: "edge[kind = 'context']", style: { "line-style": "dashed", "line-dash-pattern": [6, 4], width: 1, "target-arrow-shape": "vee", opacity: 0.7 } },
    { selector: "edge[kind = 'state']", style: { "line-style": "dotted", width: 1.2, "target-arrow-shape": "circle", "arrow-scale": 0.6, opacity: 0.7 } },
    { selector: "edge[after = 1]", style: { "line-style": "solid", width: 0.8, "target-arrow-shape": "triangle-tee" } },
    { selector: "edge.done", style: { "line-color": cssVar("--done"), "target-arrow-color": cssVar("--done"), width: 2, opacity: 1 } },
    { selector: "edge.active", style: { "line-color": cssVar("--working"), "target-arrow-color": cssVar("--working"), width: 3, opacity: 1 } },
  ] as StylesheetJson;
}

// Cytoscape would put a style element into the head, which the content security policy forbids; where it finds one of this name it does not.
// What it would have said stands in agent.css.
const STYLE_ID = "__________cytoscape_stylesheet";

function keepStyleOut(): void {
  if (document.getElementById(STYLE_ID)) return;
  const stand = document.createElement("meta");
  stand.id = STYLE_ID;
  document.head.append(stand);
}

export class Drawing {
  #cy: Core;
  #waiting: Step[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #turn: number | null = null;
  #watch: ResizeObserver;

  constructor(box: HTMLElement, graph: GraphShape, onChoose: (node: string) => void) {
    keepStyleOut();
    const places = placesOf(graph);
    this.#cy = cytoscape({
      container: box,
      elements: {
        nodes: graph.nodes.map((node) => ({ data: { id: node.name, label: plain(node.name, 24) }, position: { ...(places.get(node.name) ?? { x: 0, y: 0 }) } })),
        edges: graph.edges.map((edge, index) => ({ data: { id: `edge ${index}`, source: edge.source, target: edge.target, kind: edge.type, after: edge.after ? 1 : 0, way: way(edge.source, edge.target) } })),
      },
      style: looks(),
      layout: { name: "preset", padding: 14 },
      maxZoom: 1, userZoomingEnabled: false, userPanningEnabled: false, boxSelectionEnabled: false, autoungrabify: true, autounselectify: true,
    });
    this.#cy.on("tap", (event) => onChoose(event.target === this.#cy || event.target.isEdge() ? "" : (event.target.id() as string)));
    this.#watch = new ResizeObserver(() => this.#fit());
    this.#watch.observe(box);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#watch.disconnect();
    this.#cy.destroy();
  }

  /** Draws in the colours of the theme that is shown now. */
  recolour(): void {
    this.#cy.style(looks());
  }

  choose(node: string): void {
    this.#cy.nodes().removeClass("chosen");
    if (node) this.#cy.getElementById(node).addClass("chosen");
  }

  /** Shows how a turn went, at once. */
  show(work: Work): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waiting = [];
    this.#turn = work.turn;
    this.#cy.batch(() => {
      this.#cy.elements().removeClass(STATES);
      for (const [node, { state }] of work.nodes) {
        this.#cy.getElementById(node).addClass(state);
        this.#gone(way(USER, node)).addClass("done");
      }
      for (const one of work.ways) this.#gone(one).addClass("done");
    });
  }

  /** Shows what happens, one step after the other, so that it can be followed with the eye. */
  play(steps: readonly Step[]): void {
    this.#waiting.push(...steps);
    this.#next();
  }

  #next(): void {
    if (this.#timer !== undefined) return;
    const step = this.#waiting.shift();
    if (!step) return;
    this.#take(step);
    const hurry = calm.matches || this.#waiting.length > MOST_WAITING;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#next();
    }, hurry ? 0 : BEAT);
  }

  #take(step: Step): void {
    // A new turn begins on a clean page; what still works for an older one is not shown.
    if (step.turn !== null && this.#turn !== null && step.turn < this.#turn) return;
    if (step.turn !== null && step.turn !== this.#turn) this.#cy.elements().removeClass(STATES);
    this.#turn = step.turn ?? this.#turn;
    this.#cy.getElementById(step.node).removeClass(STATES).addClass(step.state);
    if (step.state === "active") this.#light(way(USER, step.node));
    for (const target of step.targets) this.#light(way(step.node, target));
  }

  #light(one: string): void {
    const edges = this.#gone(one);
    edges.addClass("active");
    setTimeout(() => this.#cy.destroyed() || edges.removeClass("active").addClass("done"), GLOW);
  }

  #gone(one: string) {
    return this.#cy.edges().filter((edge) => edge.data("way") === one && edge.data("kind") === "data");
  }

  #fit(): void {
    this.#cy.resize();
    this.#cy.fit(undefined, 14);
  }
}
