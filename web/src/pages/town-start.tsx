import { useState } from "preact/hooks";

import { setParams } from "../router";
import type { StartedAnswer, TownAgent } from "../api/types";
import { closeDrawer, openDrawer } from "../ui/drawer";
import { plain } from "../ui/hostile";
import { Words } from "../ui/words";
import { Refused, maySteer, useAsk } from "./town-steer";

const PLAN = `title = "Read issues of two forges"
max_parallel = 2

[[items]]
id = "shape"
title = "Agree on the shape of an issue"
type = "design"

[[items]]
id = "read"
title = "Read them"
depends_on = ["shape"]
checks = ["unit"]
`;

function Form() {
  const asking = useAsk();
  const [text, set] = useState("");
  const [told, tell] = useState<StartedAnswer | null>(null);
  const isIssues = /^\s*[[{]/.test(text) && !/^\s*\[\[/.test(text);
  const start = async (): Promise<void> => {
    const answer = await asking.ask<StartedAnswer>("plans", { plan: text, format: isIssues ? "issues" : "toml" });
    if (answer === null) return;
    setParams({ mission: answer.mission, more: null }, "push");
    if (answer.left_out.length > 0) tell(answer);
    else closeDrawer();
  };
  if (told) return <><p>Mission started. Skipped:</p><ul class="town-notes">{told.left_out.map((one) => <li key={one}><Words text={one} /></li>)}</ul></>;
  return (
    <form class="town-start" onSubmit={(sent) => {
      sent.preventDefault();
      if (text.trim() && !asking.busy) void start();
    }}>
      <p>Paste a plan in TOML, or issues in JSON as Gitea and GitHub export them.</p>
      <textarea class="field" aria-label="The plan" rows={18} spellcheck={false} placeholder={PLAN} value={text} onInput={(input) => set(input.currentTarget.value)} />
      <p class="row">
        <button type="submit" class="button primary" disabled={asking.busy || !text.trim()}>Start it</button>
        <label class="button">From a file… <input type="file" class="said-only" accept=".toml,.json,.jsonl" onChange={(change) => void change.currentTarget.files?.[0]?.text().then(set)} /></label>
        {text.trim() && <span class="faint">{isIssues ? "read as issues" : "read as TOML"}</span>}
      </p>
      <Refused asking={asking} />
    </form>
  );
}

const PRIORITIES = ["urgent", "high", "normal", "low"] as const;

function TaskForm({ agents }: { agents: readonly TownAgent[] }) {
  const asking = useAsk();
  const [title, name] = useState("");
  const [description, say] = useState("");
  const [priority, choose] = useState<string>("normal");
  const [agent, give] = useState("");
  const add = async (): Promise<void> => {
    const told = { title: title.trim(), priority, ...(description.trim() ? { description: description.trim() } : {}), ...(agent ? { agent } : {}) };
    if ((await asking.ask("backlog", told)) !== null) closeDrawer();
  };
  return (
    <form class="town-start" onSubmit={(sent) => {
      sent.preventDefault();
      if (title.trim() && !asking.busy) void add();
    }}>
      <input class="field" aria-label="Title" placeholder="What to do, in one line" maxLength={300} autocomplete="off" value={title} onInput={(input) => name(input.currentTarget.value)} />
      <textarea class="field words" aria-label="Description" placeholder="Everything the agent needs to know" rows={8} maxLength={16_000} value={description} onInput={(input) => say(input.currentTarget.value)} />
      <p class="row">
        <label>Priority <select class="field" value={priority} onChange={(change) => choose(change.currentTarget.value)}>{PRIORITIES.map((one) => <option key={one} value={one}>{one}</option>)}</select></label>
        <label>For <select class="field" value={agent} onChange={(change) => give(change.currentTarget.value)}>
          <option value="">anybody</option>
          {agents.map((one) => <option key={one.name} value={one.name}>{plain(one.shown || one.name)}</option>)}
        </select></label>
        <button type="submit" class="button primary" disabled={asking.busy || !title.trim()}>Add it</button>
      </p>
      <Refused asking={asking} />
    </form>
  );
}

/** A task for the backlog. */
export function AddTask({ agents }: { agents: readonly TownAgent[] }) {
  if (!maySteer()) return null;
  return <button type="button" class="button small" onClick={() => openDrawer("A new task", () => <TaskForm agents={agents} />)}>Add a task…</button>;
}

/** A mission, from a plan. */
export function StartMission() {
  if (!maySteer()) return null;
  return <button type="button" class="button small" onClick={() => openDrawer("A new mission", () => <Form />)}>Start a mission…</button>;
}
