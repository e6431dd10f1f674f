import { useEffect, useState } from "preact/hooks";

import { query } from "../api";
import { asOf, useView } from "../moment";
import { useParam } from "../router";
import type { StoryAnswer } from "../shapes";
import "../styles/story.css";
import { Empty } from "../ui/empty";
import { plain } from "../ui/hostile";
import { Trouble, Waiting } from "../ui/state";
import { Switch } from "../ui/switch";
import { zone } from "../ui/times";
import { Words } from "../ui/words";
import type { Page } from "./page";
import { ChapterPart, newsOf } from "./story-chapter";
import { LIMIT, useEarlier, useTold, type Earlier } from "./story-hooks";
import { JustWritten } from "./story-latest";
import { joined, keyOf, latest } from "./story-pages";
import { toEnd, usePlace } from "./story-place";

const DETAILS = [["headline", "Headlines"], ["story", "Story"], ["full", "Full"]] as const;

function Tools() {
  const [detail, setDetail] = useParam("detail", "story");
  const [scope, setScope] = useParam("scope");
  const [text, setText] = useState(scope);
  useEffect(() => setText(scope), [scope]);
  const submit = (sent: Event): void => {
    sent.preventDefault();
    setScope(text.trim(), "push");
  };
  return (
    <div class="tools story-tools">
      <Switch label="How much is told" value={detail} choose={setDetail} options={DETAILS} />
      <form onSubmit={submit} role="search">
        <input class="field" type="search" aria-label="Tell only of" placeholder="agent:ada, task:t7, mission:…" value={text}
          onInput={(input) => {
            setText(input.currentTarget.value);
            if (!input.currentTarget.value) setScope("", "push");
          }} />
      </form>
    </div>
  );
}

function Beginning({ story, earlier }: { story: StoryAnswer; earlier: Earlier }) {
  if (!earlier.more) return story.opening ? <p class="opening"><Words text={story.opening} /></p> : null;
  return (
    <button type="button" class="button earlier" disabled={earlier.loading} onClick={() => void earlier.load()}>
      {earlier.loading ? "Reading what came earlier…" : "Earlier"}
    </button>
  );
}

function Nothing({ scope }: { scope: string }) {
  const hint = scope ? `No event names ${plain(scope)}. Empty the box above for the whole story.` : "Nothing had happened yet at this moment.";
  return <Empty title="Nothing to tell" hint={hint} />;
}

function Story() {
  const [detail] = useParam("detail", "story");
  const [scope] = useParam("scope");
  const asked: Record<string, string> = { detail, tz: zone, ...(scope ? { scope } : {}) };
  const { data: story, error, stale } = useView<StoryAnswer>("/api/story", { ...asked, limit: LIMIT });
  const key = query(asked) + (asOf.value ?? "");
  const told = useTold(key, story, stale);
  const earlier = useEarlier(key, asked, stale ? null : story);
  const chapters = earlier.chapters.length > 0 ? joined([...earlier.chapters, ...told.chapters]) : told.chapters;
  const newest = latest(chapters, 1)[0];
  const oldest = chapters[0]?.sentences[0];
  const unseen = usePlace({ told, newest: newest ? keyOf(newest) + newest.text : "", oldest: oldest ? keyOf(oldest) : "" });
  if (!story) return <><Tools />{error ? <Trouble error={error} /> : <Waiting lines={9} />}</>;
  return (
    <>
      <Tools />
      {error && <Trouble error={error} />}
      <article class="story" aria-label="The story so far">
        {chapters.length === 0 ? <Nothing scope={scope} /> : <Beginning story={story} earlier={earlier} />}
        {chapters.map((chapter) => <ChapterPart key={chapter.sentences[0] ? keyOf(chapter.sentences[0]) : chapter.first_at} chapter={chapter} news={newsOf(chapter, told.news)} />)}
        {story.closing && <footer class="closing"><Words text={story.closing} /></footer>}
        {story.live && chapters.length > 0 && <JustWritten chapters={chapters} />}
      </article>
      {unseen && <button type="button" class="to-end" onClick={toEnd}>New sentences ↓</button>}
    </>
  );
}

export const page: Page = {
  path: "story", title: "Story", key: "s", view: Story,
  icon: "M12 6.5C10 5 7 4.5 4 4.8v13.7c3-.3 6 .2 8 1.7 2-1.5 5-2 8-1.7V4.8c-3-.3-6 .2-8 1.7zm0 0v13.7",
};
