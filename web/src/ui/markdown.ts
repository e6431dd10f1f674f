const MARKS: readonly (readonly [RegExp, string])[] = [
  [/^ {0,3}(?:#{1,6}|>) +/gm, ""],
  [/(^|[\s("'“—:])(\*\*|\*)(?=\S)([^*\n]+?)(?<=\S)\2(?=$|[\s.,;:!?)"'”—…])/gm, "$1$3"],
  [/\[([^\]\n]+)\]\((?:https?:|\.{0,2}\/|#|[\w-]+\/)[^()\s]*\)/g, "$1"],
  [/(`+)([^`\n]+)\1/g, "$2"],
];

/** The words of a text without Markdown's marks, for places too small for headings and bold type. What is no mark stays: `2**3`, `#7`, `__init__`. */
export function unmarked(text: string): string {
  return MARKS.reduce((rest, [mark, kept]) => rest.replace(mark, kept), text);
}
