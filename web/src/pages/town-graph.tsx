import { useMemo } from "preact/hooks";

import type { MissionPage, TownItem } from "../api/types";
import { plain } from "../ui/hostile";
import { Name } from "../ui/name";
import { Words } from "../ui/words";
import { counted } from "../ui/times";
import { HIGH, WIDE, drawn } from "./town-layout";
import { STANDS, STAND_SIGNS, STAND_WORDS, called, standOf } from "./town-model";
import { openItem } from "./town-drawers";

/** More than that nobody reads as a drawing. */
const MOST_DRAWN = 150;

function Node({ item, mission, x, y }: { item: TownItem; mission: string; x: number; y: number }) {
  const stand = standOf(item);
  const said = `${item.title || item.id}: ${STAND_WORDS[stand]}${item.waits_for.length ? `, waits for ${item.waits_for.length}` : ""}`;
  return (
    <li>
      <button type="button" class={`town-node ${stand}`} style={{ left: `${x}px`, top: `${y}px`, width: `${WIDE}px`, height: `${HIGH}px` }} title={plain(said)} onClick={() => openItem(mission, item.id)}>
        <span class="town-sign" aria-hidden="true">{STAND_SIGNS[stand]}</span>
        <span class="town-node-what"><Words text={item.title || item.id} /></span>
        <span class="town-node-foot">
          <span class="said-only">{STAND_WORDS[stand]},</span>
          <span>{called(item.type)}</span>
          {item.agent && item.state !== "pending" && <span class="town-node-who"><Name text={item.shown || item.agent} /></span>}
          {item.round > 0 && <span class="town-round" title="Number of requested changes">↻{item.round}</span>}
        </span>
      </button>
    </li>
  );
}

function Legend({ items }: { items: readonly TownItem[] }) {
  const found = new Set(items.map(standOf));
  return (
    <p class="legend faint">
      {STANDS.filter((stand) => found.has(stand)).map((stand) => (
        <span key={stand} class={`town-key ${stand}`}><span class="town-sign" aria-hidden="true">{STAND_SIGNS[stand]}</span>{STAND_WORDS[stand]}</span>
      ))}
    </p>
  );
}

/** The items of a mission, each to the right of all that it waits for. */
export function Graph({ mission }: { mission: MissionPage }) {
  const items = mission.work.slice(0, MOST_DRAWN);
  const shape = items.map((item) => `${item.id}\n${item.depends_on.join("\n")}`).join("\n\n");
  const drawing = useMemo(() => drawn(items), [shape]);
  const byId = new Map(items.map((item) => [item.id, item]));
  const more = mission.items - items.length;
  return (
    <figure class="town-graph">
      <div class="town-graph-scroll" tabIndex={0} role="region" aria-label="Dependencies">
        <div class="town-graph-field" style={{ width: `${drawing.width}px`, height: `${drawing.height}px` }}>
          <svg width={drawing.width} height={drawing.height} aria-hidden="true">
            {drawing.edges.map((edge) => <path key={`${edge.from}\n${edge.to}`} class={byId.get(edge.from)?.state === "done" ? "done" : ""} d={edge.path} />)}
          </svg>
          <ol>{drawing.spots.map((spot) => <Node key={spot.id} item={byId.get(spot.id) as TownItem} mission={mission.id} x={spot.x} y={spot.y} />)}</ol>
        </div>
      </div>
      <figcaption><Legend items={items} />{more > 0 && <span class="faint num">{counted(more, "more item")} not drawn: <code>lore town mission show</code> lists all</span>}</figcaption>
    </figure>
  );
}
