import { useLayoutEffect } from "preact/hooks";

/** Syntax colours by the browser's highlight registry: ranges over text nodes, so that colours cost no elements. */

type Token = "comment" | "string" | "number" | "keyword";

const KEYWORDS = new Set((
  "abstract and as assert async await bool boolean break case catch chan class const continue def default defer del do elif else elsif end enum " +
  "except export extends extern false False final finally fn for foreach from func function go goto if impl implements import in include instanceof " +
  "int interface is lambda let loop match mod module mut namespace new nil None nonlocal not null object of or package pass private protected pub public " +
  "raise range readonly ref require return self static str string struct super switch then this throw throws trait true True try type typeof union " +
  "unless until use using val var void when where while with yield"
).split(" "));
const PROSE = /\.(?:md|markdown|txt|rst|adoc|csv|log)$/i;
const HASH = /\.(?:py|rb|sh|bash|zsh|toml|ya?ml|r|pl|ex|exs|tf|cfg|ini|mk|dockerfile)$|(?:^|\/)(?:Makefile|Dockerfile|\.[\w-]+ignore)$/i;
const DASHES = /\.(?:sql|lua|hs|elm)$/i;
const LONGEST_LINE = 1000;

function pattern(path: string): RegExp | null {
  if (PROSE.test(path)) return null;
  const comment = HASH.test(path) ? "#.*" : DASHES.test(path) ? "--.*" : "\\/\\/.*|\\/\\*.*?(?:\\*\\/|$)|^\\s*\\*.*";
  return new RegExp(`(${comment})|("(?:[^"\\\\]|\\\\.)*"|'(?:[^'\\\\]|\\\\.)*'|\`(?:[^\`\\\\]|\\\\.)*\`)|\\b(\\d[\\w.]*)\\b|\\b([A-Za-z_]\\w*)\\b`, "g");
}

/** The tokens of one line that have a colour. */
export function tokens(line: string, path: string): [from: number, to: number, token: Token][] {
  const search = line.length > LONGEST_LINE ? null : pattern(path);
  if (!search) return [];
  const found: [number, number, Token][] = [];
  for (const match of line.matchAll(search)) {
    const token = match[1] !== undefined ? "comment" : match[2] !== undefined ? "string" : match[3] !== undefined ? "number" : KEYWORDS.has(match[4] ?? "") ? "keyword" : null;
    if (token) found.push([match.index, match.index + match[0].length, token]);
  }
  return found;
}

const registry = typeof CSS !== "undefined" && "highlights" in CSS ? CSS.highlights : null;

function colours(name: string): Highlight | null {
  if (!registry) return null;
  const known = registry.get(name);
  if (known) return known;
  const made = new Highlight();
  registry.set(name, made);
  return made;
}

function register(ranges: [Range, string][]): () => void {
  for (const [range, name] of ranges) colours(name)?.add(range);
  return () => ranges.forEach(([range, name]) => colours(name)?.delete(range));
}

function textNodes(root: Node): Text[] {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const found: Text[] = [];
  while (walker.nextNode()) found.push(walker.currentNode as Text);
  return found;
}

function rangeOver(node: Text, from: number, to: number): Range {
  const range = document.createRange();
  range.setStart(node, from);
  range.setEnd(node, to);
  return range;
}

/** Colours the code in an element, each text node as a line or more of the file at `path`; `skip` characters at the start of each are no code. */
export function useSyntax(element: { current: HTMLElement | null }, path: string, turn: unknown, skip = 0): void {
  useLayoutEffect(() => {
    if (!registry || !element.current) return undefined;
    const ranges: [Range, string][] = [];
    for (const node of textNodes(element.current)) {
      for (const [from, to, token] of tokens(node.data.slice(skip), path)) ranges.push([rangeOver(node, from + skip, to + skip), `code-${token}`]);
    }
    return register(ranges);
  }, [path, turn]);
}

/** Marks words that were searched for in an element. */
export function useMarked(element: { current: HTMLElement | null }, words: readonly string[], turn: unknown): void {
  useLayoutEffect(() => {
    if (!registry || !element.current || words.length === 0) return undefined;
    const ranges: [Range, string][] = [];
    for (const node of textNodes(element.current)) {
      const text = node.data.toLowerCase();
      for (const word of words) {
        for (let at = text.indexOf(word); at >= 0 && ranges.length < 500; at = text.indexOf(word, at + word.length)) ranges.push([rangeOver(node, at, at + word.length), "found"]);
      }
    }
    return register(ranges);
  }, [words.join(" "), turn]);
}
