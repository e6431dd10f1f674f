import { pieces } from "./hostile";

/** Text that others wrote. It is only ever a text node, it cannot turn the line around, and what is invisible in it is shown. */
export function Words({ text, class: extra }: { text: string | null | undefined; class?: string }) {
  if (!text) return null;
  return (
    <bdi class={extra}>
      {pieces(text).map((piece) =>
        "text" in piece ? piece.text : (
          <span class="unseen" title={`U+${piece.code}, an invisible character`}>{piece.code}</span>
        ),
      )}
    </bdi>
  );
}
