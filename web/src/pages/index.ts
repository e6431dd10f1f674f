import { page as chat } from "./agent";
import { page as brief } from "./brief";
import { page as costs } from "./costs";
import { page as events } from "./events";
import { page as goals } from "./goals";
import { page as now } from "./now";
import type { Page } from "./page";
import { page as sessions } from "./sessions";
import { page as stage } from "./stage";
import { page as timeline } from "./timeline";
import { page as town } from "./town";
import { page as why } from "./why";

export type { Page } from "./page";

/** An entry of the navigation: a page, or several that share one. */
export interface Entry {
  title: string;
  key: string;
  icon: string;
  pages: readonly Page[];
}

const single = (page: Page): Entry => ({ ...page, pages: [page] });

/** The navigation: at most five entries, so that they fit on a phone. */
export const entries: readonly Entry[] = [
  single(now), single(sessions), single(brief),
  { title: "Work", key: "w", icon: goals.icon, pages: [goals, town] },
  single(costs),
];
/** What is under More. */
export const more: readonly Entry[] = [timeline, events, why, stage, chat].map(single);
export const pages: readonly Page[] = [...entries, ...more].flatMap((entry) => entry.pages);

export function entryOf(page: Page): Entry | undefined {
  return [...entries, ...more].find((entry) => entry.pages.includes(page));
}
