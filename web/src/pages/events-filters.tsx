import { useEffect, useState } from "preact/hooks";

import { useView } from "../moment";
import { setParams, type Step } from "../router";
import type { FleetAnswer } from "../api/types";
import { Words } from "../ui/words";
import { EVERYTHING, pairs, toAddress, type Filter } from "./events-filter";

const FAMILIES: readonly string[] = ["fleet", "town", "driver", "session", "agent", "prompt", "tool", "model", "work", "goal", "judge", "notify", "log"];
const SINCE: readonly (readonly [string, string])[] = [["", "any time"], ["15m", "15 minutes"], ["1h", "an hour"], ["24h", "a day"], ["7d", "a week"], ["30d", "30 days"]];
const PATIENCE = 250;

/** Which events: words, scope, kinds, since when; all of it in the address. */
export function Filters({ filter }: { filter: Filter }) {
  const change = (part: Partial<Filter>, how: Step = "push"): void => setParams(toAddress({ ...filter, ...part }), how);
  const agents = useView<FleetAnswer>("/api/fleet").data?.agents ?? [];
  const since = SINCE.some(([value]) => value === filter.since) ? SINCE : [...SINCE, [filter.since, filter.since] as const];
  return (
    <div class="ev-filters" role="search" aria-label="Which events">
      <Field label="Words" value={filter.q} onChange={(q) => change({ q }, "replace")} hint="text in the event" type="search" />
      <Field label="Scope" value={filter.scope} onChange={(scope) => change({ scope }, "replace")} hint="agent:ada, task:t7…" list="ev-scopes" />
      <datalist id="ev-scopes">{agents.map((agent) => <option key={agent.name} value={`agent:${agent.name}`} />)}</datalist>
      <KindField filter={filter} change={change} />
      <label class="ev-field ev-since"><span>Since</span>
        <select class="field" value={filter.since} onChange={(event) => change({ since: event.currentTarget.value })}>
          {since.map(([value, word]) => <option key={value} value={value}>{word}</option>)}
        </select>
      </label>
      <div class="ev-chips">
        {filter.kinds.map((kind) => (
          <button key={kind} type="button" class="chip" onClick={() => change({ kinds: filter.kinds.filter((one) => one !== kind) })} title="Remove this filter"><Words text={kind} /> ×</button>
        ))}
        {pairs(filter).length > 0 && <button type="button" class="button small" onClick={() => change(EVERYTHING)}>Clear filters</button>}
      </div>
    </div>
  );
}

function KindField({ filter, change }: { filter: Filter; change: (part: Partial<Filter>) => void }) {
  const add = (kind: string): void => {
    if (kind && !filter.kinds.includes(kind)) change({ kinds: [...filter.kinds, kind] });
  };
  return (
    <>
      <Field label="Kind" value="" onChange={add} hint="fleet.*, tool.failed…" list="ev-kinds" clears />
      <datalist id="ev-kinds">{FAMILIES.map((family) => <option key={family} value={`${family}.*`} />)}</datalist>
    </>
  );
}

interface Given {
  readonly label: string;
  readonly value: string;
  readonly hint: string;
  readonly onChange: (value: string) => void;
  readonly list?: string;
  readonly type?: "search" | "text";
  /** Taken on enter or choice only, and then empty again. */
  readonly clears?: boolean;
}

function Field({ label, value, hint, onChange, list, type = "text", clears = false }: Given) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (clears || text.trim() === value) return undefined;
    const timer = setTimeout(() => onChange(text.trim()), PATIENCE);
    return () => clearTimeout(timer);
  }, [text]);
  const take = (): void => {
    onChange(text.trim());
    if (clears) setText("");
  };
  return (
    <label class="ev-field"><span>{label}</span>
      <input class="field" type={type} value={text} placeholder={hint} {...(list ? { list } : {})} spellcheck={false} autocomplete="off"
        onInput={(event) => setText(event.currentTarget.value)} onChange={take}
        onKeyDown={(event) => event.key === "Enter" && take()} />
    </label>
  );
}
