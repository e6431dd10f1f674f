import type { StagePlay, StagePlayer } from "../api/types";
import { openAgent } from "../ui/agent-drawer";
import { plain } from "../ui/hostile";
import { Words } from "../ui/words";
import { initials } from "./stage-model";

/** A character's mark: a disc in its colour. */
export function Mark({ name, voice }: { name: string; voice: number }) {
  return <span class={`mark-of voice-${voice}`} aria-hidden="true">{initials(name)}</span>;
}

function Player({ player, voice, speaks, wins }: { player: StagePlayer; voice: number; speaks: boolean; wins: boolean }) {
  const part = [player.role === "worker" ? null : player.role, player.team].filter(Boolean).join(" · ");
  return (
    <li class={`player voice-${voice} ${player.thinking ? "thinking" : speaks ? "speaks" : ""} ${wins ? "wins" : ""}`}>
      <Mark name={player.name} voice={voice} />
      <div class="player-said">
        <p class="player-name"><button type="button" onClick={() => openAgent(player.name)} title={plain(player.name)}><Words text={player.name} /></button>{wins && <span class="laurel" title="Won"> ★</span>}</p>
        {part && <p class="player-part"><Words text={part} /></p>}
        <p class="player-state">
          {player.thinking ? <span class="dots">thinking<i>.</i><i>.</i><i>.</i></span> : <Words text={player.mood} />}
        </p>
        {player.persona && <p class="player-persona" title={plain(player.persona, 1000)}><Words text={player.persona} /></p>}
      </div>
    </li>
  );
}

/** Who plays, and whose turn it is. */
export function Cast({ play, voices }: { play: StagePlay; voices: Map<string, number> }) {
  const winner = play.finished?.winner ?? null;
  const speaker = play.finished ? null : play.lines.findLast((line) => line.kind === "agent.spoke" || line.kind === "oracle.spoke")?.speaker;
  return (
    <aside class={play.finished ? "cast" : "cast on"} aria-label="The cast">
      <h3>The cast</h3>
      <ul>
        {play.cast.map((player) => (
          <Player key={player.name} player={player} voice={voices.get(player.name) ?? 0} speaks={player.name === speaker} wins={winner !== null && (winner === player.name || winner === player.team)} />
        ))}
      </ul>
    </aside>
  );
}
