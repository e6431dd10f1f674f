import { connection, lostSince } from "../live";
import { meta } from "../meta";
import { asOf } from "../moment";
import { now } from "../clock";
import { count, clockSeconds, full, length } from "../ui/times";
import { plain } from "../ui/hostile";
import { returnToLive } from "./travel";

/** While the log is being read: how far, in words and as a line. */
function Reading() {
  const known = meta.value;
  if (!known || known.caught_up) return null;
  const share = known.total > 0 ? known.done / known.total : 0;
  return (
    <div class="banner reading" role="status">
      <progress max={1} value={share} aria-label="Reading the log" />
      <p>Reading the log: <span class="num">{count(known.done)}</span> of <span class="num">{count(known.total)}</span>. Pages show what is read so far.</p>
    </div>
  );
}

function Lost() {
  const since = lostSince.value;
  if (connection.value !== "lost" || since === null) return null;
  void now.value;
  const passed = (Date.now() - since) / 1000;
  if (passed < 1.5) return null;
  return (
    <div class="banner lost" role="status">
      <p>Connection lost at {clockSeconds(since)}, {length(passed)} ago. Reconnecting; no events will be missed.</p>
    </div>
  );
}

function Past() {
  const moment = asOf.value;
  if (moment === null) return null;
  const parsed = Date.parse(moment);
  return (
    <div class="banner past" role="status">
      <p>As known at <strong class="num">{Number.isNaN(parsed) ? `position ${plain(moment)}` : full(parsed)}</strong></p>
      <button type="button" class="button small" onClick={returnToLive}>Return to live</button>
    </div>
  );
}

export function Banners() {
  return <><Past /><Lost /><Reading /></>;
}
