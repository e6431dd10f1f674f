import { page as agent } from "./agent";
import { page as brief } from "./brief";
import { page as costs } from "./costs";
import { page as events } from "./events";
import { page as fleet } from "./fleet";
import { page as goals } from "./goals";
import type { Page } from "./page";
import { page as stage } from "./stage";
import { page as threads } from "./threads";
import { page as timeline } from "./timeline";
import { page as town } from "./town";

export type { Page } from "./page";

/** Every page, in the order of the rail. */
export const pages: readonly Page[] = [fleet, brief, timeline, threads, goals, town, costs, stage, agent, events];
