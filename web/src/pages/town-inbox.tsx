import { useState } from "preact/hooks";

import type { TownAnswer, TownHelp, TownInbox, TownMessage } from "../api/types";
import { Ago } from "../ui/ago";
import { Name } from "../ui/name";
import { count, counted } from "../ui/times";
import { Words } from "../ui/words";
import { Messages } from "./town-drawers";
import { MissionLink } from "./town-missions";
import { Line, Refused, maySteer, mayWrite, useAsk } from "./town-steer";

function Help({ help }: { help: TownHelp }) {
  const asking = useAsk();
  return (
    <li class="town-help">
      <p class="town-message-head"><strong><MissionLink id={help.mission}><Words text={help.title || help.mission} /></MissionLink> asks for help</strong>{help.attempt > 1 && <span class="faint num">for the {help.attempt}. time</span>}<Ago at={help.at} /></p>
      <p class="town-text"><Words text={help.reason} /></p>
      {mayWrite() && <Line label="Leave a note" hint="Leave a note for the next agent…" word="Note" busy={asking.busy} send={(text) => asking.ask("notes", { mission: help.mission, text })}
        extra={maySteer() && <button type="button" class="button" disabled={asking.busy} title="The agent asks again if nothing changes" onClick={() => void asking.ask("missions", { mission: help.mission, action: "helped" })}>It is helped</button>} />}
      <Refused asking={asking} />
    </li>
  );
}

function Answer({ message }: { message: TownMessage }) {
  const asking = useAsk();
  const used = (): void => void asking.ask("messages/used", { message: message.id, to: message.to });
  return (
    <>
      <Line label="Answer" hint="Answer…" word="Answer" busy={asking.busy} send={(body) => asking.ask("messages", { to: message.sender, body, correlation: message.id, ...(message.task ? { task: message.task } : {}) })}
        extra={<button type="button" class="button" title="Remove it from the inbox" disabled={asking.busy} onClick={used}>Done with it</button>} />
      <Refused asking={asking} />
    </>
  );
}

/** What only a person can do something about: calls for help, and what agents wrote to whoever runs the town. */
export function WaitsForYou({ town }: { town: TownAnswer }) {
  const boxes = town.inboxes.filter((box) => box.is_person && box.total > 0);
  const waiting = boxes.reduce((sum, box) => sum + box.total, 0);
  if (town.help.length === 0 && waiting === 0) return null;
  return (
    <section class="town-part town-needs" aria-label="Needs you">
      <h2><span class="town-needs-sign" aria-hidden="true">!</span>Needs you <span class="num">{town.help.length + waiting}</span></h2>
      {town.help.length > 0 && <ul>{town.help.map((help) => <Help key={help.mission} help={help} />)}</ul>}
      {boxes.map((box) => <Messages key={box.name} messages={box.messages} {...(mayWrite() ? { answer: (message: TownMessage) => <Answer message={message} /> } : {})} />)}
      {waiting > boxes.reduce((sum, box) => sum + box.messages.length, 0) && <p class="num">The first {boxes.reduce((sum, box) => sum + box.messages.length, 0)} of {waiting} messages are shown.</p>}
    </section>
  );
}

function Box({ box }: { box: TownInbox }) {
  const [open, set] = useState(false);
  return (
    <li>
      <details open={open} onToggle={(toggle) => set(toggle.currentTarget.open)}>
        <summary><Name text={box.shown || box.name} /> <span class="faint num">{counted(box.total, "message")}</span>{box.urgent > 0 && <span class="town-priority urgent">▲▲ {box.urgent} urgent</span>}</summary>
        {open && <Messages messages={box.messages} />}
        {open && box.total > box.messages.length && <p class="faint num">{counted(box.total - box.messages.length, "more message")} not shown: <code>lore town inbox</code></p>}
      </details>
    </li>
  );
}

/** What waits for agents. */
export function Inboxes({ town }: { town: TownAnswer }) {
  const boxes = town.inboxes.filter((box) => !box.is_person && box.total > 0);
  const left = town.inboxes_total - town.inboxes.length;
  if (boxes.length === 0) return null;
  return (
    <section class="town-part" aria-label="Inboxes">
      <h2>Inboxes <span class="faint num">{count(boxes.length + left)}</span></h2>
      <ul class="town-boxes">{boxes.map((box) => <Box key={box.name} box={box} />)}</ul>
      {left > 0 && <p class="faint num">{count(left)} more are not shown</p>}
    </section>
  );
}
