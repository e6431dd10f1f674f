import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { onEvents } from "../live";
import type { LoreEvent } from "../api/types";
import type { GraphShape } from "../api/types";
import { theme } from "../theme";
import { plain } from "../ui/hostile";
import { Words } from "../ui/words";
import type { Drawing } from "./agent-draw";
import { stepOf, took, USER, workOf, type Work, type Worked } from "./agent-model";

const SAID = { idle: "not called on", active: "at work", done: "done", failed: "failed" } as const;
const LEGEND = [["data", "data: who works next"], ["context", "context: what it reads"], ["state", "state: what it looks at"]] as const;

function Canvas({ graph, work, session, chosen, choose }: { graph: GraphShape; work: Work; session: string | null; chosen: string; choose: (node: string) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const [drawing, put] = useState<Drawing | null>(null);
  const [failed, fail] = useState(false);
  const choosing = useRef(choose);
  choosing.current = choose;
  const first = useRef(work);
  first.current = work;
  useEffect(() => {
    let gone = false;
    let made: Drawing | null = null;
    import("./agent-draw").then(({ Drawing: Made }) => {
      if (gone || !box.current) return;
      made = new Made(box.current, graph, (node) => choosing.current(node));
      made.show(first.current);
      put(made);
    }, () => fail(true));
    return () => {
      gone = true;
      put(null);
      made?.close();
    };
  }, [graph]);
  const shown = theme.value;
  useEffect(() => drawing?.recolour(), [drawing, shown]);
  useEffect(() => drawing?.choose(chosen), [drawing, chosen]);
  useEffect(() => {
    if (!drawing || session === null) return undefined;
    return onEvents((events) => drawing.play(events.filter((event) => event.run === session).flatMap((event) => stepOf(event) ?? [])));
  }, [drawing, session]);
  // The past does not move: it is shown as it was.
  useEffect(() => {
    if (session === null) drawing?.show(work);
  }, [drawing, session, work]);
  return failed ? <p class="faint">The drawing could not be loaded. The list below shows the same.</p> : <div class="graph-canvas" ref={box} aria-hidden="true" />;
}

function Chip({ name, implementation, worked, pressed, onPress }: { name: string; implementation: string; worked: Worked; pressed: boolean; onPress: () => void }) {
  return (
    <li>
      <button type="button" class={`node-chip ${worked.state}`} data-node={name} data-state={worked.state} aria-pressed={pressed} onClick={onPress} title={plain(`${implementation}: ${SAID[worked.state]}; show only its steps in the trace`)}>
        <span class="node-dot" aria-hidden="true" />
        <Words text={name} />
        {worked.ms !== null && <span class="num faint">{took(worked.ms)}</span>}
        <span class="unheard">, {SAID[worked.state]}</span>
      </button>
    </li>
  );
}

/** The graph, drawn and as a list. `session` is set while it lives: then it moves. */
export function GraphPanel({ graph, events, session, chosen, choose }: {
  graph: GraphShape;
  /** The newest of the run, in the order of the log. */
  events: readonly LoreEvent[];
  session: string | null;
  /** The node whose steps alone the trace shows; empty: all of them. */
  chosen: string;
  choose: (node: string) => void;
}) {
  const work = useMemo(() => workOf(events), [events]);
  return (
    <section class="agent-graph" aria-labelledby="agent-graph-title">
      <h2 id="agent-graph-title"><Words text={graph.name} /> <span class="faint num">{work.turn === null ? "no turn yet" : `turn ${work.turn}`}</span></h2>
      {graph.description && <p class="faint graph-about"><Words text={graph.description} /></p>}
      <Canvas graph={graph} work={work} session={session} chosen={chosen} choose={choose} />
      <p class="graph-legend faint" aria-hidden="true">{LEGEND.map(([kind, said]) => <span key={kind}><i class={`way ${kind}`} />{said}</span>)}</p>
      <ul class="node-chips" aria-label="Nodes, and how long each took in the newest turn">
        {graph.nodes.filter((node) => node.name !== USER).map((node) => (
          <Chip key={node.name} {...node} worked={work.nodes.get(node.name) ?? { state: "idle", ms: null }} pressed={chosen === node.name} onPress={() => choose(chosen === node.name ? "" : node.name)} />
        ))}
      </ul>
    </section>
  );
}
