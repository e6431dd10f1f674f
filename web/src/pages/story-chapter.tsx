import { memo } from "preact/compat";

import type { Arc, Chapter, Sentence } from "../shapes";
import { ArcNote } from "../ui/arc";
import { BeatMark } from "../ui/beat";
import { familyOf } from "../ui/beats";
import { showEvents } from "../ui/events";
import { clock, day, full, stretch } from "../ui/times";
import { Words } from "../ui/words";
import { keyOf, paragraphs, sameItems, type Paragraph } from "./story-pages";

function SentencePart({ sentence, isNew }: { sentence: Sentence; isNew: boolean }) {
  const open = (): void => showEvents(sentence.evidence, "What this rests on");
  return (
    <><span
      data-key={keyOf(sentence)} class={isNew ? "sentence new" : "sentence"} role="button" tabIndex={0} title={full(sentence.at)} onClick={open}
      onKeyDown={(press) => {
        if (press.key !== "Enter" && press.key !== " ") return;
        press.preventDefault();
        open();
      }}
    >
      <Words text={sentence.text} />
    </span>{" "}</>
  );
}

/** The beat that says most about a paragraph: trouble, else something done, else its first. */
function telling(sentences: readonly Sentence[]): string | null {
  const of = (family: string) => sentences.find((sentence) => familyOf(sentence.beat) === family);
  return (of("trouble") ?? of("done") ?? sentences[0])?.beat ?? null;
}

interface Told {
  paragraph: Paragraph;
  isNew: ReadonlySet<string>;
}

function saysTheSame(a: Told, b: Told): boolean {
  const news = ({ paragraph, isNew }: Told): string => paragraph.sentences.map(keyOf).filter((key) => isNew.has(key)).join();
  return sameItems(a.paragraph.sentences, b.paragraph.sentences) && sameItems(a.paragraph.arcs, b.paragraph.arcs) && news(a) === news(b);
}

const ParagraphPart = memo(function ParagraphPart({ paragraph: { sentences, arcs }, isNew }: Told) {
  const first = sentences[0];
  if (!first) return null;
  return (
    <div class="paragraph">
      <span class="gutter"><time class="num" dateTime={first.at}>{clock(first.at)}</time><BeatMark beat={telling(sentences)} size={9} /></span>
      <p>{sentences.map((sentence) => <SentencePart key={keyOf(sentence)} sentence={sentence} isNew={isNew.has(keyOf(sentence))} />)}</p>
      <Margin arcs={arcs} />
    </div>
  );
}, saysTheSame);

function Margin({ arcs }: { arcs: Arc[] }) {
  if (arcs.length === 0) return null;
  return <div class="margin" role="group" aria-label="Arcs">{arcs.map((arc) => <ArcNote key={arc.kind + arc.thread + arc.first} arc={arc} />)}</div>;
}

/** A title that begins with its day has it above, as newspapers do. */
function Title({ chapter }: { chapter: Chapter }) {
  const [day, ...rest] = chapter.title.split(" · ");
  return (
    <header>
      {rest.length > 0 && <p class="kicker"><Words text={day} /></p>}
      <h2><Words text={rest.length > 0 ? rest.join(" · ") : chapter.title} /></h2>
      <Dateline chapter={chapter} />
    </header>
  );
}

function Dateline({ chapter }: { chapter: Chapter }) {
  return <p class="dateline num">{day(chapter.first_at)}, {stretch(chapter.first_at, chapter.last_at)}</p>;
}

/** The new sentences of a chapter, as one text: equal when nothing changed. */
export function newsOf(chapter: Chapter, news: ReadonlyMap<string, number>): string {
  if (news.size === 0) return "";
  return chapter.sentences.map(keyOf).filter((key) => news.has(key)).join("\n");
}

/** One chapter: its prose, and beside it the arcs that run through it. */
export const ChapterPart = memo(function ChapterPart({ chapter, news }: { chapter: Chapter; news: string }) {
  const isNew = new Set(news.split("\n"));
  const { paragraphs: told, others } = paragraphs(chapter);
  return (
    <section class="chapter">
      <div class="chapter-head"><Title chapter={chapter} /><Margin arcs={others} /></div>
      {told.map((paragraph) => <ParagraphPart key={paragraph.sentences[0] && keyOf(paragraph.sentences[0])} paragraph={paragraph} isNew={isNew} />)}
    </section>
  );
});
