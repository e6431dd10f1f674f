import { useEffect, useRef, useState } from "preact/hooks";

import { connection } from "../live";
import { asOf } from "../moment";
import { clock, clockSeconds, day, full, length, zone } from "../ui/times";
import { Shape } from "./density";
import { Icon } from "./icons";
import { endOfRecording } from "./rail";
import { SPEEDS, stepOf } from "./steps";
import { bounds, moment, playing, returnToLive, setSpeed, speed, stepMoment, togglePlay, travel } from "./travel";

const PATIENCE = 150;

/** What the hand holds while it drags: shown at once, asked for when it rests. */
function useDrag(): [number | null, (to: number | null) => void] {
  const [held, hold] = useState<number | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const drag = (to: number | null): void => {
    clearTimeout(timer.current);
    playing.value = false;
    hold(to ?? bounds.peek()?.last ?? null);
    timer.current = setTimeout(() => {
      travel(to);
      hold(null);
    }, PATIENCE);
  };
  return [held, drag];
}

function Track() {
  const at = bounds.value;
  const [held, drag] = useDrag();
  if (!at) return <div class="track" />;
  const step = stepOf(at.last - at.first);
  const shown = Math.min(at.last, Math.max(at.first, held ?? moment.value ?? at.last));
  const share = (shown - at.first) / (at.last - at.first);
  return (
    <div class="track" style={{ "--share": String(share) }}>
      <Shape share={asOf.value === null && held === null ? 1 : share} />
      <input
        type="range" aria-label="Time that is shown" min={at.first} max={at.last} step="any" value={shown}
        aria-valuetext={asOf.value === null ? "live" : `as known at ${full(shown)}`}
        onInput={(input) => {
          const to = Number(input.currentTarget.value);
          drag(to >= at.last - step / 50 ? null : to);
        }}
        onKeyDown={(press) => {
          const steps = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10 }[press.key];
          if (steps === undefined) return;
          press.preventDefault();
          stepMoment(steps);
        }}
      />
      {held !== null && <output class="track-hint num">{day(held)}, {clockSeconds(held)}</output>}
    </div>
  );
}

function Ends() {
  const at = bounds.value;
  if (!at) return null;
  const oneDay = day(at.first) === day(at.last);
  const said = (time: number): string => (oneDay ? clock(time) : `${day(time)} ${clock(time)}`);
  return <div class="track-ends num"><span>{said(at.first)}</span><span>{said(at.last)} {zone}</span></div>;
}

function Tools() {
  const at = bounds.value;
  const live = asOf.value === null;
  return (
    <div class="slider-tools">
      <button type="button" class="button icon" disabled={!at} onClick={() => stepMoment(-1)} aria-label="Step back" title="Step back ([)"><Icon name="back" /></button>
      <button type="button" class="button icon" disabled={!at} onClick={togglePlay} aria-label={playing.value ? "Stop" : "Play"} title="Play (p)">
        <Icon name={playing.value ? "pause" : "play"} />
      </button>
      <button type="button" class="button icon" disabled={!at || live} onClick={() => stepMoment(1)} aria-label="Step forward" title="Step forward (])"><Icon name="on" /></button>
      <select class="speed num" aria-label="Replay speed" title="How much time one second of play shows" value={speed.value} onChange={(change) => setSpeed(Number(change.currentTarget.value))}>
        {SPEEDS.map((times) => <option key={times} value={times}>{length(times)} per second</option>)}
      </select>
    </div>
  );
}

/** The time slider: drag to any past moment, play, step, return to live. */
export function Slider() {
  const live = asOf.value === null;
  const isRecording = endOfRecording() !== null;
  return (
    <section class={`slider ${live ? "is-live" : "is-past"}`} aria-label="Time">
      <Tools />
      <div class="slider-middle">
        <Track />
        <Ends />
      </div>
      <button type="button" class={`live-button ${isRecording ? "recording" : connection.value}`} aria-pressed={live} onClick={returnToLive} title={isRecording ? "To the newest event (l)" : "Back to live (l)"}>
        <span class="live-dot" aria-hidden="true" /> {isRecording ? "Newest" : "Live"}
      </button>
    </section>
  );
}
