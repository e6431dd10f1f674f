import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { calm } from "../theme";
import { clock, full } from "../ui/times";
import { Words } from "../ui/words";
import type { Line, Pending } from "./agent-line";
import { took, type Card, type Said } from "./agent-model";

const LONGEST = 8000;
const NEAR = 80;

function Process({ card }: { card: Card }) {
  return (
    <div class={`process-card ${card.state}`}>
      <span class="process-sign" aria-hidden="true">{{ running: "◌", done: "✓", failed: "!" }[card.state]}</span>
      <code><Words text={card.name.slice(0, 300)} /></code>
      <span class="faint num">{card.state === "running" ? "running…" : card.ms === null ? card.state : took(card.ms)}</span>
      {card.note && <p><Words text={card.note.slice(0, 600)} /></p>}
    </div>
  );
}

function Entry({ said }: { said: Said }) {
  if (said.is === "card") return <li class="said tool"><Process card={said.card} /></li>;
  const time = <time class="num faint" dateTime={said.at} title={full(said.at)}>{clock(said.at)}</time>;
  if (said.is === "note") return <li class="said note"><Words text={said.text} /> {time}</li>;
  if (said.is === "press") return <li class="said press"><span class="faint">pressed</span> <strong><Words text={said.text} /></strong>{said.answer && <> · <Words text={said.answer} /></>} {time}</li>;
  if (said.is === "failed") return <li class="said failed" role="alert"><p><strong>This turn failed{said.who && <> in <Words text={said.who} /></>}.</strong> <Words text={said.text} /></p><p class="faint">What was on the screen is still there; say something else, or try again. {time}</p></li>;
  return (
    <li class={`said by-${said.is}`}>
      <span class="unheard">{said.is === "user" ? "You" : "The agent"}: </span>
      <p class="bubble"><Words text={said.text} /></p>
      <span class="said-foot">{said.is === "agent" && <Words text={said.who} />} {time}</span>
    </li>
  );
}

function Waiting({ pending, line }: { pending: Pending; line: Line }) {
  return (
    <li class="said by-user pending">
      <p class="bubble"><Words text={pending.text} /></p>
      <span class="said-foot">{pending.lost ? <>Connection lost. The message may not have arrived. <button type="button" class="button small" onClick={() => line.sayAgain(pending)}>Send again</button></> : "sending…"}</span>
    </li>
  );
}

/** Keeps whoever is at the end there, and leaves alone who reads further up. */
function useEnd(told: readonly unknown[]) {
  const box = useRef<HTMLDivElement>(null);
  const stuck = useRef(true);
  const look = (): void => {
    if (box.current) stuck.current = box.current.scrollHeight - box.current.scrollTop - box.current.clientHeight < NEAR;
  };
  useLayoutEffect(() => {
    if (stuck.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, told as unknown[]);
  useEffect(() => {
    const observer = new ResizeObserver(() => stuck.current && box.current?.scrollTo({ top: box.current.scrollHeight }));
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return { ref: box, onScroll: look };
}

function Live({ line, at }: { line: Line; at: string | null }) {
  const saying = line.saying.value;
  return (
    <>
      {line.pending.value.map((one, index) => <Waiting key={index} pending={one} line={line} />)}
      {saying && <li class="said by-agent saying"><span class="unheard">The agent: </span><p class="bubble"><Words text={saying} /><span class="caret" aria-hidden="true" /></p></li>}
      {line.busy.value && !saying && <li class="said at-work faint"><span class="dots" aria-hidden="true"><i /><i /><i /></span> {at === null ? "taking your turn" : <><Words text={at} /> is at work</>}</li>}
      {line.trouble.value && <li class="said failed" role="alert"><p><strong>That did not work.</strong> <Words text={line.trouble.value} /></p></li>}
    </>
  );
}

/** The conversation; with a line it goes on. */
export function Talk({ said, line, at, more, older }: { said: readonly Said[]; line: Line | null; at: string | null; more: boolean; older: () => void }) {
  const end = useEnd([said, line?.saying.value, line?.pending.value, line?.busy.value, line?.trouble.value]);
  const nothing = said.length === 0 && !line?.busy.value && !line?.pending.value.length;
  return (
    <div class="talk" {...end} tabIndex={0} role="log" aria-label="Conversation" aria-live={line ? "polite" : "off"} aria-busy={line?.busy.value ?? false}>
      {more && <button type="button" class="button small wide" onClick={older}>Earlier</button>}
      {nothing && <Hints line={line} />}
      <ol>
        {said.map((one) => <Entry key={one.id} said={one} />)}
        {line && <Live line={line} at={at} />}
      </ol>
    </div>
  );
}

const TRY = ["Hello", "Make a counter with a button", "Make a traffic light"] as const;

function Hints({ line }: { line: Line | null }) {
  if (!line) return <p class="talk-empty faint">No messages yet at this time.</p>;
  return (
    <div class="talk-empty">
      <h2>Talk to the agent</h2>
      <p>It answers in text and shows buttons, labels and tables on its own screen. The graph beside it shows which node is running.</p>
      <p class="row">{TRY.map((text) => <button key={text} type="button" class="button small" onClick={() => line.say(text)}>{text}</button>)}</p>
    </div>
  );
}

export function Composer({ line }: { line: Line }) {
  const [text, set] = useState("");
  const box = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    if (!box.current) return;
    box.current.style.height = "auto";
    box.current.style.height = `${Math.min(box.current.scrollHeight, 180)}px`;
  }, [text]);
  const send = (): void => {
    if (!text.trim()) return;
    line.say(text.trim());
    set("");
    box.current?.focus({ preventScroll: calm.matches });
  };
  return (
    <form class="composer" onSubmit={(sent) => {
      sent.preventDefault();
      send();
    }}>
      <textarea
        class="field" ref={box} rows={1} aria-label="Say something to the agent" placeholder="Say something…" maxLength={LONGEST} value={text}
        onInput={(input) => set(input.currentTarget.value)}
        onKeyDown={(press) => {
          if (press.key !== "Enter" || press.shiftKey || press.isComposing) return;
          press.preventDefault();
          send();
        }}
      />
      {line.busy.value && <button type="button" class="button" onClick={() => line.stop()}>Stop</button>}
      <button type="submit" class="button primary" disabled={!text.trim()}>Send</button>
    </form>
  );
}
