/** A piece of text that others wrote: plain, or one character that would not be seen but would change what is. */
type Piece = { text: string } | { code: string };

// C0 and C1 controls but tab and newline, soft hyphen, Arabic letter mark, zero-width space, direction marks, embeddings, overrides, isolates,
// invisible operators, byte order mark, interlinear marks, tag characters.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** Cuts text so that what cannot be seen can be shown by its number. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(UNSEEN)) {
    if (match.index > from) found.push({ text: text.slice(from, match.index) });
    found.push({ code: (match[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0") });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from) });
  return found;
}

/** The same for places that hold only text, such as a title or a notice. */
export function plain(text: string, most = 200): string {
  const whole = pieces(text).map((piece) => ("text" in piece ? piece.text : `[U+${piece.code}]`)).join("");
  return whole.length > most ? `${whole.slice(0, most - 1)}…` : whole;
}
