import { asOf, useView } from "../moment";
import { useParam } from "../router";
import type { TownAnswer } from "../api/types";
import "../styles/town.css";
import { Copy } from "../ui/copy";
import { Empty } from "../ui/empty";
import { Trouble, Waiting } from "../ui/state";
import type { Page } from "./page";
import { Agents } from "./town-agents";
import { Board } from "./town-board";
import { Inboxes, WaitsForYou } from "./town-inbox";
import { Missions } from "./town-missions";
import { StartMission } from "./town-start";
import { HowToSteer } from "./town-steer";

const COMMANDS = [
  ["Add an agent", "lore town spawn ada --role backend"],
  ["Add a task", 'lore town backlog add "Fix the login"'],
  ["Run the agents on this machine", "lore worker"],
] as const;

function Teach() {
  return (
    <section class="goals-teach">
      <h2>No town yet</h2>
      <p>A town is a team of agents that share work. On one machine or several, they take tasks from one backlog, send messages, ask for reviews and ask for help. Everything is in the log, so no work is lost when an agent or its machine stops.</p>
      <ol class="town-teach">{COMMANDS.map(([what, line]) => <li key={line}><span class="faint">{what}</span><span class="command"><code>{line}</code><Copy text={line} /></span></li>)}</ol>
      <p><StartMission /></p>
    </section>
  );
}

function isEmpty(town: TownAnswer): boolean {
  return town.agents_total === 0 && town.missions_total === 0 && town.archived === 0 && town.board.every((column) => column.total === 0);
}

function Town() {
  const [mission] = useParam("mission");
  const [more] = useParam("more");
  const { data, error, stale } = useView<TownAnswer>("/api/town", { mission: mission || null, more: more || null });
  if (!data) return error ? <Trouble error={error} /> : <Waiting lines={8} />;
  if (isEmpty(data) && !mission) return asOf.value === null ? <Teach /> : <Empty title="There was no town yet at this time" hint="Move the time slider forward, or return to live." />;
  return (
    <div class="townhall">
      {error && <Trouble error={error} />}
      <WaitsForYou town={data} />
      <Agents town={data} />
      <Missions town={data} start={<StartMission />} />
      {mission && !data.mission && !stale && <Empty title="There is no such mission" hint={asOf.value === null ? "It is not in this log, or older than those listed here." : "It had not started at this time. Move the time slider forward, or return to live."} />}
      <Board town={data} mission={!!mission} />
      <Inboxes town={data} />
      <HowToSteer />
    </div>
  );
}

export const page: Page = {
  path: "town", title: "Town", key: "", view: Town,
  icon: "M3.5 20.5v-9l5-4 5 4v9zM13.5 20.5V6.5l3.5-3 3.5 3v14zM7 20.5v-4h3v4M17 9.5v.01M17 13v.01M17 16.5v.01",
};
