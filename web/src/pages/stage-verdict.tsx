import type { StagePlay, StageVerdict } from "../api/types";
import { showEvents } from "../ui/events";
import { compact, counted, usd } from "../ui/times";
import { Words } from "../ui/words";
import { rankOf } from "./stage-model";

function Named({ verdict }: { verdict: StageVerdict }) {
  const roles = Object.entries(verdict.reveal);
  if (!verdict.accused && roles.length === 0) return null;
  return (
    <p class="verdict-named">
      {verdict.accused && <>Named <strong><Words text={verdict.accused} /></strong>{verdict.correct !== null && (verdict.correct ? ", rightly. " : ", wrongly. ")}</>}
      {roles.map(([name, role]) => <span key={name}><strong><Words text={name} /></strong> was the <Words text={role || "one"} />. </span>)}
    </p>
  );
}

function Scores({ verdict, voices }: { verdict: StageVerdict; voices: Map<string, number> }) {
  const rank = rankOf(verdict);
  if (rank.length === 0) return null;
  return (
    <ol class="scores" aria-label="Scores">
      {rank.map(({ name, score, share }) => (
        <li key={name} class={`voice-${voices.get(name) ?? 0} ${name === verdict.winner ? "best" : ""}`}>
          <span class="score-name"><Words text={name} /></span>
          <span class="score-bar" aria-hidden="true"><span style={{ width: `${Math.round(share * 100)}%` }} /></span>
          <span class="score num">{score.toLocaleString("en-GB", { maximumFractionDigits: 1 })}</span>
        </li>
      ))}
    </ol>
  );
}

/** The curtain call. */
export function Verdict({ verdict, voices }: { verdict: StageVerdict; voices: Map<string, number> }) {
  return (
    <section class="verdict" aria-label="Verdict">
      <p class="verdict-who"><Words text={verdict.judge} /> rules</p>
      <blockquote><button type="button" onClick={() => showEvents([verdict.id], "The verdict")} title="Show the event"><Words text={verdict.text} /></button></blockquote>
      {verdict.winner && !verdict.accused && <p class="verdict-winner"><span aria-hidden="true">★</span> <Words text={verdict.winner} /></p>}
      <Named verdict={verdict} />
      <Scores verdict={verdict} voices={voices} />
    </section>
  );
}

/** That the run is over, and what it took. */
export function Curtain({ play }: { play: StagePlay }) {
  if (!play.finished) return null;
  const { spent, finished } = play;
  const lead = `${play.title}: `;
  const said = finished.text.startsWith(lead) ? finished.text.slice(lead.length) : finished.text;
  return (
    <footer class="curtain">
      <p class="curtain-word" aria-hidden="true">Curtain</p>
      <p class="curtain-said"><Words text={said || finished.reason} /></p>
      <p class="faint num">{counted(spent.turns ?? 0, "turn")} · {counted(spent.calls ?? 0, "question")} · {compact(spent.tokens ?? 0)} tokens{spent.usd ? ` · ${usd(spent.usd)}` : ""}</p>
    </footer>
  );
}
