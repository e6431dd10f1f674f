import { memo } from "preact/compat";

import type { Brief, BriefLine, Story, StoryParagraph, StorySentence } from "../api/types";
import { openEvidence, type Cited } from "../ui/evidence";
import { SessionLink } from "../ui/session-link";
import { Words } from "../ui/words";
import { splitWho } from "./brief-period";

type SectionName = "delivered" | "committed" | "in_progress" | "answered" | "went_wrong" | "check_this" | "needs_you" | "left_open";

export type Sections = Readonly<Record<SectionName, readonly BriefLine[]>>;

/** The lines of each section. What waits for a person is in two: those who need one now, as Now counts them, and what had no answer. `needing`: the sessions on Now; null until they are known. */
export function sectionsOf(brief: Brief, needing: ReadonlySet<string> | null): Sections {
  const isNow = ({ sessions }: BriefLine): boolean => needing === null || sessions.length === 0 || sessions.some((session) => needing.has(session));
  return { ...brief, needs_you: brief.needs_you.filter(isNow), left_open: brief.needs_you.filter((line) => !isNow(line)) };
}

export const SECTIONS: readonly (readonly [SectionName, string])[] = [
  ["delivered", "Delivered"],
  ["committed", "Committed, no push recorded"],
  ["in_progress", "Changed, not committed"],
  ["answered", "Answered or looked into"],
  ["went_wrong", "Went wrong"],
  ["check_this", "Check this"],
  ["needs_you", "Needs you"],
  ["left_open", "Left open"],
];

function anchorOf(session: string): string {
  return `session-${session}`;
}

/** Scrolls to a session's paragraph and gives it the focus. */
function goToSession(session: string): void {
  const place = document.getElementById(anchorOf(session));
  place?.scrollIntoView({ block: "start" });
  place?.focus({ preventScroll: true });
}

type Names = ReadonlyMap<string, string>;

/** What a line does not say yet: the name of its session, as the other pages have it. */
function missingName(line: BriefLine, names: Names): string {
  const name = line.sessions.length === 1 ? names.get(line.sessions[0] ?? "") ?? "" : "";
  return line.text.toLowerCase().includes(name.toLowerCase().replace(/[.…]+$/, "")) ? "" : name;
}

function Line({ line, names }: { line: BriefLine; names: Names }) {
  const [said, who] = splitWho(line.text);
  const name = missingName(line, names);
  const cited: Cited = {
    text: line.text,
    events: line.evidence.map(({ event }) => event),
    sessions: line.sessions.map((session) => ({ session, title: names.get(session) ?? session.slice(0, 8) })),
    tasks: line.tasks,
  };
  return (
    <li>
      <button type="button" class="brief-line" onClick={() => openEvidence(cited, goToSession)} title="Show the evidence">
        <Words text={said} />
        {who && <>{" "}<span class="brief-who"><Words text={who} /></span></>}
        {name && <span class="brief-session">Session: <Words text={name} /></span>}
      </button>
    </li>
  );
}

/** The sections of a brief that have lines. */
export const BriefSections = memo(function BriefSections({ sections, names }: { sections: Sections; names: Names }) {
  return (
    <>
      {SECTIONS.map(([name, heading]) => sections[name].length > 0 && (
        <section key={name} id={name} class={`brief-section ${name.replace("_", "-")}`} aria-labelledby={`${name}-heading`}>
          <h3 id={`${name}-heading`}>{heading}</h3>
          <ul>{sections[name].map((line, index) => <Line key={index + line.text} line={line} names={names} />)}</ul>
        </section>
      ))}
    </>
  );
});

function Sentence({ sentence, paragraph }: { sentence: StorySentence; paragraph: StoryParagraph }) {
  const events = sentence.evidence.map(({ event }) => event);
  if (events.length === 0) return <><Words text={sentence.text} />{" "}</>;
  const sessions = paragraph.session ? [{ session: paragraph.session, title: paragraph.title }] : [];
  const open = (): void => openEvidence({ text: sentence.text, events, sessions, tasks: [] }, goToSession);
  return (
    <>
      <span
        class="sentence" role="button" tabIndex={0} title="Show the evidence" onClick={open}
        onKeyDown={(press) => {
          if (press.key !== "Enter" && press.key !== " ") return;
          press.preventDefault();
          open();
        }}
      >
        <Words text={sentence.text} />
      </span>{" "}
    </>
  );
}

function Paragraph({ paragraph, names }: { paragraph: StoryParagraph; names: Names }) {
  const [said, facts] = splitWho(paragraph.title);
  const title = names.get(paragraph.session ?? "") ?? said;
  return (
    <section class="paragraph" id={paragraph.session ? anchorOf(paragraph.session) : undefined} tabIndex={-1}>
      <h4>{paragraph.session ? <SessionLink session={paragraph.session} class="paragraph-link"><Words text={title} /></SessionLink> : <Words text={title} />}</h4>
      {facts && <p class="paragraph-facts"><Words text={facts} /></p>}
      <p>{paragraph.sentences.map((sentence, index) => <Sentence key={index} sentence={sentence} paragraph={paragraph} />)}</p>
    </section>
  );
}

/** A paragraph per session, in the order in which they began. */
export const StoryPart = memo(function StoryPart({ story, names }: { story: Story; names: Names }) {
  if (story.paragraphs.length === 0) return null;
  return (
    <section class="story" aria-labelledby="story-heading">
      <h3 id="story-heading">Session by session</h3>
      {story.paragraphs.map((paragraph, index) => <Paragraph key={paragraph.session ?? index} paragraph={paragraph} names={names} />)}
    </section>
  );
});
