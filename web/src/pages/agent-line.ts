/** The line to one agent: what is said goes out over a socket, words and controls come back as they are made. It reconnects by itself. */

import { batch, signal } from "@preact/signals";

import { get, query, Refusal, token } from "../api";
import { pause } from "../live";
import type { LoreEvent } from "../api/types";
import type { ChatAnswer, Control, SocketMessage, Screen } from "../api/types";

export type Link = "closed" | "opening" | "open" | "lost";

/** Something that was said and is not in the log yet. */
export interface Pending {
  text: string;
  /** The line broke after it was sent: nobody knows whether it was message. */
  lost: boolean;
}

type Outgoing = { type: "text"; text: string } | { type: "action"; action: string } | { type: "report" };
const MOST_TURNS = 8;
/** Of several changes of what is shown, the last is sent, after so many milliseconds. */
export const SETTLING = 60;
const PROTOCOL = "fleetlore.chat";

export class Line {
  readonly link = signal<Link>("closed");
  readonly screen = signal<Screen | null>(null);
  /** The reply, as far as it has come. */
  readonly saying = signal("");
  readonly busy = signal(false);
  readonly trouble = signal<string | null>(null);
  readonly pending = signal<readonly Pending[]>([]);
  /** What the page shows just now, and of which screen; set by it. */
  look: () => Control[] = () => [];
  drawn: number | undefined;
  /** Called with the session as soon as the server has one for us. */
  onSession: (session: string) => void = () => undefined;
  #session: string | null;
  #socket: WebSocket | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #tries = 0;
  #waiting: Outgoing[] = [];
  #reported = "";
  /** Turns of ours that are not over. */
  #open = 0;
  /** Whether the log had the reply before all of it had come over the socket. */
  #spoken = false;
  /** What it says went wrong, and the socket has not said yet. */
  #failures: string[] = [];
  /** Whether we came in the middle of a reply: the log is going to have all of it, we would show the end alone. */
  #late = false;
  #over = false;

  constructor(session: string | null) {
    this.#session = session;
  }

  /** Which conversation it is; `null` as long as nothing was said in it. */
  get session(): string | null {
    return this.#session;
  }

  open(): void {
    if (this.#socket || this.#over) return;
    this.link.value = this.#tries === 0 ? "opening" : "lost";
    const address = new URL(`/ws/chat${query({ session: this.#session })}`, location.href);
    address.protocol = address.protocol.replace("http", "ws");
    // A browser lets nobody set headers here; the token goes where the words of the protocol go, never into the address.
    const socket = (this.#socket = new WebSocket(address, [PROTOCOL, ...(token.peek() ? [token.peek() as string] : [])]));
    let stood = false;
    socket.onmessage = (message) => {
      stood = true;
      this.#handle(JSON.parse(String(message.data)) as SocketMessage);
    };
    socket.onclose = () => this.#lose(stood);
  }

  close(): void {
    this.#over = true;
    clearTimeout(this.#timer);
    if (this.#socket) hangUp(this.#socket);
    this.#socket = null;
    this.link.value = "closed";
  }

  say(text: string): void {
    this.pending.value = [...this.pending.peek(), { text, lost: false }];
    this.#turn({ type: "text", text });
  }

  sayAgain(pending: Pending): void {
    this.pending.value = this.pending.peek().filter((one) => one !== pending);
    this.say(pending.text);
  }

  press(action: string): void {
    this.#turn({ type: "action", action });
  }

  /** Stops the running turn. */
  stop(): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ type: "stop" }));
  }

  /** Tells what is shown, if that is not known. */
  report(): void {
    if (this.link.peek() === "open" && JSON.stringify(this.look()) !== this.#reported) this.#send({ type: "report" });
  }

  /** Events of this session came. */
  stored(events: readonly LoreEvent[]): void {
    for (const event of events) {
      if (event.kind === "prompt.submitted") this.#heardOf(event.data?.["prompt"]);
      // What was streamed stands in the log now, as a whole; and so does what went wrong.
      if (event.kind === "agent.spoke") {
        this.saying.value = "";
        this.#spoken = true;
      }
      if (event.kind === "session.turn_ended") this.#badly(event);
      if (event.kind === "session.started") this.#goBy(event.data?.["graph"]);
    }
  }

  /** The log shows by itself what went wrong in a turn; whichever tells it last is the one that says nothing. */
  #badly(event: LoreEvent): void {
    if (!event.text) return;
    if (this.trouble.peek() === event.text) this.trouble.value = null;
    else this.#failures = [...this.#failures, event.text].slice(-MOST_TURNS);
  }

  #goBy(graph: unknown): void {
    const shown = this.screen.peek();
    if (shown && typeof graph === "string") this.screen.value = { ...shown, graph };
  }

  #heardOf(text: unknown): void {
    const pending = this.pending.peek();
    const found = pending.findIndex((one) => one.text === text);
    const place = Math.max(0, found);
    if (pending.length > 0) this.pending.value = pending.filter((_, index) => index !== place);
  }

  #turn(message: Outgoing): void {
    this.#open += 1;
    this.#spoken = false;
    batch(() => {
      this.busy.value = true;
      this.trouble.value = null;
    });
    this.#send(message);
  }

  #send(message: Outgoing): void {
    if (this.#socket?.readyState !== WebSocket.OPEN || this.link.peek() !== "open") {
      this.#waiting.push(message);
      this.open();
      return;
    }
    const dashboard = this.look();
    this.#reported = JSON.stringify(dashboard);
    this.#socket.send(JSON.stringify({ ...message, dashboard, seen: this.drawn }));
  }

  #handle(message: SocketMessage): void {
    const shown = this.screen.peek();
    if (message.type === "screen") this.#begin(message);
    else if (message.type === "delta") this.saying.value += this.#late ? "" : message.content;
    else if (message.type === "controls") this.screen.value = shown && { ...shown, controls: message.controls, state: message.state, n: message.n };
    else if (message.type === "error") batch(() => this.#fail(message.message));
    else if (message.type === "done") batch(() => this.#end());
  }

  #end(): void {
    this.#late = false;
    this.#open = Math.max(0, this.#open - 1);
    this.busy.value = this.#open > 0;
    if (this.#spoken) this.saying.value = "";
    this.#spoken = false;
  }

  #fail(message: string): void {
    const reported = this.#failures.indexOf(message);
    if (reported < 0) this.trouble.value = message;
    else this.#failures.splice(reported, 1);
    this.saying.value = "";
  }

  #begin(screen: Screen): void {
    this.#tries = 0;
    this.#reported = "";
    this.#late = screen.busy;
    this.#open = this.#waiting.filter((message) => message.type !== "report").length + (screen.busy ? 1 : 0);
    batch(() => {
      this.link.value = "open";
      this.saying.value = "";
      this.screen.value = screen;
      this.busy.value = this.#open > 0;
    });
    if (this.#session === null) {
      this.#session = screen.session;
      this.onSession(screen.session);
    }
    for (const message of this.#waiting.splice(0)) this.#send(message);
    setTimeout(() => this.report(), SETTLING);
  }

  #lose(stood: boolean): void {
    this.#socket = null;
    if (this.#over) return;
    this.#open = 0;
    batch(() => {
      this.link.value = "lost";
      this.busy.value = false;
      if (stood) this.pending.value = this.pending.peek().map((one) => ({ ...one, lost: true }));
    });
    if (!stood) void this.#askWhy();
    this.#timer = setTimeout(() => this.open(), pause((this.#tries += 1)));
  }

  /** A socket that was refused does not say why; the same question over HTTP does. */
  async #askWhy(): Promise<void> {
    const said = await get<ChatAnswer>("/api/chat", { session: this.#session }).catch((reason: unknown) => reason);
    if (this.#over || this.link.peek() === "open") return;
    if (said instanceof Refusal) this.trouble.value = said.detail || said.title;
    else if (this.#session !== null && !(said instanceof Error) && (said as ChatAnswer).screen === null) {
      clearTimeout(this.#timer);
      this.link.value = "closed";
      this.trouble.value = "There is no such conversation of yours; begin a new one.";
    }
  }
}

/** One that does not stand yet is closed when it does: browsers complain of those that are closed before. */
function hangUp(socket: WebSocket): void {
  socket.onmessage = null;
  if (socket.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close();
  else socket.close();
}
