import type { ComponentChildren } from "preact";

import { Copy } from "./copy";

interface Command {
  what: string;
  line: string;
}

function commands(): Command[] {
  const send = `curl ${location.origin}/api/events -H "Authorization: Bearer $LORE_TOKEN" -H "Content-Type: application/json" -d '{"kind":"fleet.dispatch","agent":"ada","task":"t1","text":"Fix the login"}'`;
  return [
    { what: "Try a demo", line: "lore demo" },
    { what: "Record your own coding agents", line: "lore setup" },
    { what: "Send an event from any program; create a token with lore token create --scope write", line: send },
  ];
}

/** Nothing has happened yet: the three commands that put events here. */
export function Teach() {
  return (
    <section class="teach">
      <h2>No events yet</h2>
      <p>This page updates as soon as the log has an event. Three ways to record one:</p>
      <ol>
        {commands().map(({ what, line }) => (
          <li key={what}>
            <span class="teach-what">{what}</span>
            <span class="command"><code>{line}</code><Copy text={line} /></span>
          </li>
        ))}
      </ol>
    </section>
  );
}

/** Nothing here, though the log has events: says why, and what would show something. */
export function Empty({ title, hint, children }: { title: string; hint?: string; children?: ComponentChildren }) {
  return (
    <section class="empty">
      <h2>{title}</h2>
      {hint && <p>{hint}</p>}
      {children && <p class="empty-way">{children}</p>}
    </section>
  );
}
