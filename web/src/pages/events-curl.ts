/** Commands for a shell, made of events and filters. All of that is hostile: nothing in it may leave its quotes or control a terminal. */

/** What a terminal may obey, and what readers cannot see or see in another order; JSON can say it as `\uXXXX`. */
const UNSEEN = /[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

type Pairs = readonly (readonly [string, string])[];

/** One word of a POSIX shell, whatever is in it. */
export function quoted(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** JSON in which everything unseen is written out. */
export function visibleJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(UNSEEN, escaped);
}

export function address(origin: string, path: string, pairs: Pairs): string {
  const query = pairs.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join("&");
  return `${origin}${path}${query ? `?${query}` : ""}`;
}

/** The command that reads a list, as it is filtered. */
export function curlToRead(origin: string, path: string, pairs: Pairs, withToken: boolean): string {
  const token = withToken ? ' -H "Authorization: Bearer $LORE_TOKEN"' : "";
  return `curl -sS${token} ${quoted(address(origin, path, pairs))}`;
}

/** The command that posts an event; with its id, so that it is stored once however often it is run. */
export function curlToPost(origin: string, event: Readonly<Record<string, unknown>>): string {
  const { position: _position, excerpt: _excerpt, ...body } = event;
  return [
    `curl -sS -X POST ${quoted(`${origin}/api/events`)} \\`,
    '  -H "Authorization: Bearer $LORE_TOKEN" \\',
    "  -H 'Content-Type: application/json' \\",
    `  --data-raw ${quoted(visibleJson(body))}`,
  ].join("\n");
}

function escaped(character: string): string {
  return Array.from({ length: character.length }, (_, n) => `\\u${character.charCodeAt(n).toString(16).padStart(4, "0")}`).join("");
}
