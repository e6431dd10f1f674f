import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { post } from "../api";
import type { Choice, OpenApproval, OpenApprovals } from "../api/types";
import { now } from "../clock";
import { meta } from "../meta";
import { asOf, useView } from "../moment";
import { go, href } from "../router";
import "../styles/approval.css";
import { DiffLines } from "./diff";
import { Json } from "./json";
import { follow, SessionLink } from "./session-link";
import { Trouble } from "./state";
import { length } from "./times";
import { Words } from "./words";

/** Whether this page may answer approval requests, now. */
export function mayApprove(): boolean {
  return asOf.value === null && !!meta.value?.scopes_of_token.includes("approve");
}

/** What a tool is to be called with; an edit as a diff. */
export function Given({ input }: { input: unknown }) {
  if (typeof input !== "object" || input === null || Array.isArray(input)) return <Json value={input} />;
  const fields = input as Record<string, unknown>;
  const { file_path: path, old_string: before, new_string: after } = fields;
  const isEdit = typeof path === "string" && typeof before === "string" && typeof after === "string";
  const rest = Object.entries(fields).filter(([name]) => !(isEdit && (name === "old_string" || name === "new_string")));
  return (
    <>
      <dl class="question-input">
        {rest.map(([name, value]) => (
          <div key={name}>
            <dt><Words text={name} /></dt>
            <dd>{typeof value === "string" ? <pre tabIndex={0}><Words text={value} /></pre> : <Json value={value} />}</dd>
          </div>
        ))}
      </dl>
      {isEdit && <DiffLines path={path} diff={[...before.split("\n").map((line) => `-${line}`), ...after.split("\n").map((line) => `+${line}`)].join("\n")} />}
    </>
  );
}

function Left({ expires, then }: { expires: string | null | undefined; then: string }) {
  if (!expires) return null;
  const seconds = (Date.parse(expires) - now.value) / 1000;
  return <span class="num">{seconds > 0 ? `${length(seconds)} left, then ${then}` : "time is up"}</span>;
}

function Answer({ send }: { send: (choice: Choice, reason: string) => Promise<unknown> }) {
  const [reason, say] = useState("");
  const [busy, wait] = useState(false);
  const [error, fail] = useState<Error | null>(null);
  const answer = (choice: Choice): void => {
    wait(true);
    fail(null);
    send(choice, reason.trim()).catch(fail).finally(() => wait(false));
  };
  return (
    <div class="answer">
      <input class="field" aria-label="Reason, for the agent" placeholder="Reason (for the agent)" maxLength={2000} autocomplete="off" value={reason} onInput={(input) => say(input.currentTarget.value)} />
      <button type="button" class="button allow" disabled={busy} onClick={() => answer("allow")}>Allow</button>
      <button type="button" class="button deny" disabled={busy} onClick={() => answer("deny")}>Deny</button>
      {error && <Trouble error={error} />}
    </div>
  );
}

interface Asked {
  tool: string;
  input?: unknown;
  expires?: string | null;
  hidden: number;
}

/** One approval request: what is asked, and the answer. */
export function Request({ asked, then, who, children, send }: {
  asked: Asked;
  /** What happens when time is up. */
  then: string;
  who?: ComponentChildren;
  children?: ComponentChildren;
  /** Absent if it cannot be answered here. */
  send?: ((choice: Choice, reason: string) => Promise<unknown>) | undefined;
}) {
  return (
    <li class="question">
      <p class="question-head"><strong>{who ? <>{who}: may it</> : "May it"} use <code><Words text={asked.tool} /></code>?</strong> <Left expires={asked.expires} then={then} /></p>
      <Given input={asked.input} />
      {asked.hidden > 0 && <p class="question-hidden">Not all of it is shown: the log cuts long texts and takes secrets out.</p>}
      {children}
      {send && <Answer send={send} />}
    </li>
  );
}

function One({ approval }: { approval: OpenApproval }) {
  const send = (choice: Choice, reason: string): Promise<unknown> => post(`/api/approvals/${encodeURIComponent(approval.id)}`, { choice, ...(reason ? { reason } : {}) });
  const name = <Words text={approval.shown || "A goal"} />;
  const goal = approval.goal ? `goals/${encodeURIComponent(approval.goal)}` : "";
  const who = approval.session ? <SessionLink session={approval.session}>{name}</SessionLink> : goal ? <a href={href(goal)} onClick={(click) => follow(click, () => go(goal))}>{name}</a> : name;
  return (
    <Request asked={approval} who={who} then={approval.goal ? "it is denied" : "answer it in its terminal"} send={approval.can_answer && mayApprove() ? send : undefined}>
      {approval.goal_text && <p class="question-goal"><span class="faint">Its goal:</span> <Words text={approval.goal_text} /></p>}
      {!approval.can_answer && <p class="question-answered">Answer it in <Words text={approval.program ?? "the program"} /> itself.</p>}
    </Request>
  );
}

/** What agents wait to be allowed, now. Only for components that are drawn while the present is shown. */
export function useApprovals(): readonly OpenApproval[] {
  return useView<OpenApprovals>("/api/approvals").data?.approvals ?? [];
}

export function Requests({ approvals }: { approvals: readonly OpenApproval[] }) {
  if (approvals.length === 0) return null;
  return (
    <section class="questions" aria-label="Waiting for you">
      <ul>{approvals.map((one) => <One key={one.id} approval={one} />)}</ul>
    </section>
  );
}

function OfSession({ session }: { session: string }) {
  return <Requests approvals={useApprovals().filter((one) => one.session === session)} />;
}

/** What a session waits to be allowed, now. */
export function Approvals({ session }: { session: string }) {
  return asOf.value === null ? <OfSession session={session} /> : null;
}
