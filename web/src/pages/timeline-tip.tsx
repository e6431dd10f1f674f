import { useLayoutEffect, useRef } from "preact/hooks";

import { DAY } from "../charts/span";
import { shownName } from "../ui/agent";
import { BeatMark } from "../ui/beat";
import { SAID } from "../ui/beats";
import { unmarked } from "../ui/markdown";
import { clock, clockSeconds, counted, day, length } from "../ui/times";
import { Words } from "../ui/words";
import type { Pointed } from "./timeline-chart";
import type { Hit } from "./timeline-plan";
import { arcWords, type Scene } from "./timeline-scene";

const GAP = 14;

/** What is under the pointer, in words. */
export function Tip({ pointed, scene, width }: { pointed: Pointed; scene: Scene; width: number }) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const tip = box.current;
    if (!tip) return;
    const isRight = pointed.x + GAP + tip.offsetWidth > width;
    tip.style.left = `${Math.max(0, isRight ? pointed.x - GAP - tip.offsetWidth : pointed.x + GAP)}px`;
    const above = pointed.y - GAP - tip.offsetHeight;
    tip.style.top = `${above > (tip.closest(".tl-scroller")?.scrollTop ?? 0) ? above : pointed.y + GAP}px`;
  });
  return (
    <div class="tl-tip" ref={box} role="status">
      <Inside hit={pointed.hit} scene={scene} />
    </div>
  );
}

function Inside({ hit, scene }: { hit: Hit; scene: Scene }) {
  switch (hit.what) {
    case "mark":
      return (
        <>
          <p class="tl-tip-head"><BeatMark beat={hit.mark.beat} family={hit.mark.family} /><Words text={shownName(hit.lane.agent, hit.lane.shown)} /><span class="faint">{hit.mark.beat ?? SAID[hit.mark.family]}</span></p>
          {hit.mark.text && <p class="tl-tip-text"><Words text={unmarked(hit.mark.text)} /></p>}
          <p class="faint num">{day(hit.mark.at)}, {clockSeconds(hit.mark.at)} · <code>{hit.mark.kind}</code></p>
        </>
      );
    case "arc":
      return (
        <>
          <p class="tl-tip-head"><span class={`tl-mood ${hit.arc.mood}`} />{arcWords(hit.arc.arc.kind)}{hit.arc.arc.state === "open" && <span class="faint">still open</span>}</p>
          <p class="tl-tip-text"><Words text={hit.arc.arc.text || hit.arc.arc.title} /></p>
          <p class="faint num">{day(hit.arc.from)}, {clock(hit.arc.from)} · {length((hit.arc.to - hit.arc.from) / 1000)} · {counted(hit.arc.arc.count, "event")}</p>
        </>
      );
    case "column": {
      const { column, lane } = hit;
      const said = scene.families.map((family, index) => [family, column.counts[index] ?? 0] as const).filter(([, many]) => many > 0);
      return (
        <>
          <p class="tl-tip-head"><Words text={shownName(lane.agent, lane.shown)} /><span class="faint num">{counted(column.sum, "event")}</span></p>
          <ul class="tl-tip-counts">
            {said.map(([family, many]) => <li key={family}><BeatMark family={family} /><span class="num">{many}</span> {SAID[family]}</li>)}
          </ul>
          <p class="faint num">{stretch(column.at, scene.step)} · click to look closer</p>
        </>
      );
    }
  }
}

function stretch(at: number, step: number): string {
  if (step >= DAY) return day(at);
  const said = step < 60_000 ? clockSeconds : clock;
  return `${day(at)}, ${said(at)}–${said(at + step)}`;
}
