import { now } from "../clock";
import type { Chapter } from "../shapes";
import { calm } from "../theme";
import { clockSeconds } from "../ui/times";
import { Words } from "../ui/words";
import { keyOf, latest } from "./story-pages";

const MANY = 2;
/** What is older is not just written: a log that rests says so by having no such lines. */
const RECENT = 10 * 60_000;

/** Goes to where a sentence stands in the story. */
function show(key: string): void {
  const place = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
  place?.scrollIntoView({ block: "center", behavior: calm.matches ? "auto" : "smooth" });
  place?.animate([{ background: "var(--found)" }, { background: "transparent" }], { duration: 2400 });
}

/** The sentences that were written last, wherever in the story they stand: threads go on in their own places. */
export function JustWritten({ chapters }: { chapters: Chapter[] }) {
  const recent = latest(chapters, MANY).filter((sentence) => now.value - Date.parse(sentence.at) < RECENT);
  if (recent.length === 0) return null;
  return (
    <section class="just-written" aria-label="Just written">
      <h3><span class="quill" aria-hidden="true" /> Just written</h3>
      <ol>
        {recent.map((sentence) => (
          <li key={keyOf(sentence) + sentence.text}>
            <time class="num" dateTime={sentence.at}>{clockSeconds(sentence.at)}</time>
            <button type="button" onClick={() => show(keyOf(sentence))} title="Show it in the story"><Words text={sentence.text} /></button>
          </li>
        ))}
      </ol>
    </section>
  );
}
