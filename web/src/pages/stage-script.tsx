import type { ComponentChildren } from "preact";

import type { StageLine, StageThought } from "../api/types";
import { showEvents } from "../ui/events";
import { clockSeconds, full } from "../ui/times";
import { Words } from "../ui/words";
import { keyOf, type Entry, type Turn } from "./stage-model";
import { Verdict } from "./stage-verdict";

type Voices = Map<string, number>;

/** When it was; a click shows the event itself. */
function When({ id, at, who }: { id: string; at: string; who: string }) {
  return (
    <button type="button" class="line-when num" onClick={() => showEvents([id], <Words text={who} />)} title={`${full(at)}: show the event`}>
      <time dateTime={at}>{clockSeconds(at)}</time>
    </button>
  );
}

function Thought({ thought, named }: { thought: StageThought; named: boolean }) {
  return (
    <p class="thought">
      {named && <span class="thought-owner"><Words text={thought.owner} />{thought.kind === "agent.reflected" ? " believes" : ", to themself"}</span>}
      <Words text={thought.text} />
    </p>
  );
}

/** Something that is no speech, in the middle of the page: a scene, a visitor, a remark. */
function Apart({ entry, voice, children }: { entry: { is: string; line: StageLine; thought: StageThought | null }; voice: number; children: ComponentChildren }) {
  return (
    <div class={`apart ${entry.is} voice-${voice}`}>
      {children}
      {entry.thought && <Thought thought={entry.thought} named />}
      <When id={entry.line.id} at={entry.line.at} who={entry.line.speaker} />
    </div>
  );
}

function Part({ entry, voices }: { entry: Entry; voices: Voices }) {
  switch (entry.is) {
    case "verdict":
      return <Verdict verdict={entry.verdict} voices={voices} />;
    case "thought":
      return <div class={`line alone voice-${voices.get(entry.thought.owner) ?? 0}`}><Thought thought={entry.thought} named /><When id={entry.thought.id} at={entry.thought.at} who={entry.thought.owner} /></div>;
    case "scene":
      return <Apart entry={entry} voice={0}><p><Words text={entry.line.text} /></p></Apart>;
    case "visitor":
      return <Apart entry={entry} voice={0}><p class="apart-who">{entry.line.label ? <Words text={entry.line.label} /> : "A visitor"} breaks in</p><p><Words text={entry.line.text} /></p></Apart>;
    case "aside":
      return <Apart entry={entry} voice={voices.get(entry.line.speaker) ?? 0}><p><span class="apart-who"><Words text={entry.line.speaker} />{entry.line.kind !== "commentary.posted" && <code>{entry.line.kind}</code>}</span> <Words text={entry.line.text} /></p></Apart>;
    case "line":
      return (
        <div class={`line voice-${voices.get(entry.line.speaker) ?? 0} ${entry.goesOn ? "goes-on" : ""}`}>
          <p class="line-who"><Words text={entry.line.speaker} />{entry.line.mood && <span class="line-mood"><Words text={entry.line.mood} /></span>}</p>
          <p class="line-text"><Words text={entry.line.text} /></p>
          {entry.thought && <Thought thought={entry.thought} named={false} />}
          <When id={entry.line.id} at={entry.line.at} who={entry.line.speaker} />
        </div>
      );
  }
}

/** What was said, as a printed play is set. */
export function Script({ turns, voices, news }: { turns: Turn[]; voices: Voices; news: ReadonlySet<string> }) {
  return (
    <>
      {turns.map(({ turn, entries }) => (
        <section key={turn} class="turn" aria-label={turn > 0 ? `Turn ${turn}` : "The beginning"}>
          {turn > 0 && <h3 class="turn-mark num" aria-hidden="true"><span>{turn}</span></h3>}
          {entries.map((entry) => <div key={keyOf(entry)} class={news.has(keyOf(entry)) ? "entry arrives" : "entry"}><Part entry={entry} voices={voices} /></div>)}
        </section>
      ))}
    </>
  );
}
