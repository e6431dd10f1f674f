import type { ComponentChildren } from "preact";

import { go, href } from "../router";
import { closeDrawer } from "./drawer";

/** The address of a session's page; `at` is an event in it, whose row is shown. */
export function sessionHref(session: string, at?: string | null): string {
  return href(`sessions/${encodeURIComponent(session)}`, { at: at ?? null });
}

export function openSession(session: string, at?: string | null): void {
  closeDrawer();
  go(`sessions/${encodeURIComponent(session)}`, { at: at ?? null });
}

/** Follows a link inside the app, unless the reader wants a new tab. */
export function follow(click: MouseEvent, open: () => void): void {
  if (click.metaKey || click.ctrlKey || click.shiftKey || click.button !== 0) return;
  click.preventDefault();
  open();
}

export function SessionLink({ session, at, class: extra, title, children }: {
  session: string; at?: string | null | undefined; class?: string; title?: string; children: ComponentChildren;
}) {
  return <a class={extra} title={title} href={sessionHref(session, at)} onClick={(click) => follow(click, () => openSession(session, at))}>{children}</a>;
}
