/** One message of a server-sent event stream. */
export interface Message {
  event: string;
  data: string;
  id: string | null;
}

/** Reads a stream of server-sent events from pieces that may be cut anywhere. */
export class SseParser {
  #rest = "";
  #data: string[] = [];
  #event = "";
  #id: string | null = null;
  /** How long the server wants us to wait before we come back, in milliseconds. */
  retry: number | null = null;

  push(piece: string): Message[] {
    const found: Message[] = [];
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") this.#finish(found);
      else this.#field(line);
    }
    return found;
  }

  #field(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id") this.#id = value;
    else if (name === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
  }

  #finish(found: Message[]): void {
    if (this.#data.length > 0) found.push({ event: this.#event || "message", data: this.#data.join("\n"), id: this.#id });
    this.#data = [];
    this.#event = "";
    this.#id = null;
  }
}
