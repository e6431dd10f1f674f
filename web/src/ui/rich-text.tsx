import type { ComponentChildren, VNode } from "preact";

import { plain } from "./hostile";
import { Words } from "./words";

/** Markdown as elements. Only these are made; everything else stays text, and links lead only to http and https. */

const FENCE = /^\s{0,3}(`{3,}|~{3,})(.*)$/;
const HEADING = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*$/;
const ITEM = /^(\s*)(?:[-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^\s{0,3}>\s?(.*)$/;
const RULE = /^\s{0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const TABLE_LINE = /^\s*\|.*\|\s*$/;
const TABLE_RULE = /^\s*\|?(?:\s*:?-+:?\s*\|)+\s*:?-*:?\s*\|?\s*$/;
const INLINE = /(`+)([^`]|[^`].*?[^`])\1(?!`)|\*\*(?=\S)(.+?)(?<=\S)\*\*|(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])|\[([^\]\n]{1,300})\]\((https?:\/\/[^()\s]{1,2000})\)|(?<![\w/])(https?:\/\/[^\s<>()"'`]{1,2000}[^\s<>()"'`.,;:!?])/g;
const MOST_DEPTH = 3;

function Link({ url, children }: { url: string; children: ComponentChildren }) {
  return <a href={url} rel="noopener noreferrer nofollow" target="_blank" title={plain(url, 300)}>{children}</a>;
}

function inline(text: string, depth = 0): ComponentChildren[] {
  const found: ComponentChildren[] = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > from) found.push(<Words text={text.slice(from, match.index)} />);
    const [whole, , code, bold, italic, label, target, bare] = match;
    const inner = (words: string): ComponentChildren => (depth < MOST_DEPTH ? inline(words, depth + 1) : <Words text={words} />);
    if (code !== undefined) found.push(<code><Words text={code} /></code>);
    else if (bold !== undefined) found.push(<strong>{inner(bold)}</strong>);
    else if (italic !== undefined) found.push(<em>{inner(italic)}</em>);
    else if (target !== undefined) found.push(<Link url={target}>{inner(label ?? target)}</Link>);
    else if (bare !== undefined) found.push(<Link url={bare}><Words text={bare} /></Link>);
    from = match.index + whole.length;
  }
  if (from < text.length) found.push(<Words text={text.slice(from)} />);
  return found;
}

function cells(line: string): string[] {
  return line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
}

/** The lines from `start` on for which `is` holds. */
function while_(lines: string[], start: number, is: (line: string) => boolean): number {
  let end = start;
  while (end < lines.length && is(lines[end] as string)) end += 1;
  return end;
}

function list(lines: string[]): VNode {
  const first = ITEM.exec(lines[0] as string);
  const ordered = /^\s*\d/.test(lines[0] as string);
  const indent = first?.[1]?.length ?? 0;
  const items: string[][] = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && (item[1]?.length ?? 0) <= indent + 1) items.push([item[2] ?? ""]);
    else items.at(-1)?.push(line.slice(Math.min(indent + 2, line.length - line.trimStart().length)));
  }
  const body = items.map((item, index) => <li key={index}>{item.length === 1 ? inline(item[0] ?? "") : blocks(item)}</li>);
  return ordered ? <ol>{body}</ol> : <ul>{body}</ul>;
}

function table(lines: string[]): VNode {
  return (
    <div class="md-table"><table>
      <thead><tr>{cells(lines[0] as string).map((cell, index) => <th key={index}>{inline(cell)}</th>)}</tr></thead>
      <tbody>{lines.slice(2).map((line, row) => <tr key={row}>{cells(line).map((cell, index) => <td key={index}>{inline(cell)}</td>)}</tr>)}</tbody>
    </table></div>
  );
}

/** One block that begins at a line, and the line after it. */
function block(lines: string[], start: number): [VNode | null, number] {
  const line = lines[start] as string;
  const fence = FENCE.exec(line);
  if (fence) {
    const mark = fence[1] as string;
    const end = while_(lines, start + 1, (one) => !one.trim().startsWith(mark));
    return [<pre><Words text={lines.slice(start + 1, end).join("\n")} /></pre>, Math.min(end + 1, lines.length)];
  }
  const heading = HEADING.exec(line);
  if (heading) return [<p class={`md-heading md-h${heading[1]?.length ?? 1}`}>{inline(heading[2] ?? "")}</p>, start + 1];
  if (RULE.test(line)) return [<hr />, start + 1];
  if (TABLE_LINE.test(line) && TABLE_RULE.test(lines[start + 1] ?? "")) {
    const end = while_(lines, start, (one) => TABLE_LINE.test(one));
    return [table(lines.slice(start, end)), end];
  }
  if (QUOTE.test(line)) {
    const end = while_(lines, start, (one) => QUOTE.test(one));
    return [<blockquote>{blocks(lines.slice(start, end).map((one) => QUOTE.exec(one)?.[1] ?? ""))}</blockquote>, end];
  }
  if (ITEM.test(line)) {
    const end = while_(lines, start, (one) => ITEM.test(one) || /^\s{2,}\S/.test(one));
    return [list(lines.slice(start, end)), end];
  }
  const starts = (one: string): boolean => FENCE.test(one) || HEADING.test(one) || QUOTE.test(one) || ITEM.test(one) || TABLE_LINE.test(one);
  const end = while_(lines, start + 1, (one) => one.trim() !== "" && !starts(one));
  const words = lines.slice(start, end).flatMap((one, index) => (index > 0 ? [<br />, ...inline(one)] : inline(one)));
  return [<p>{words}</p>, end];
}

function blocks(lines: string[]): VNode[] {
  const made: VNode[] = [];
  for (let at = 0; at < lines.length; ) {
    if ((lines[at] as string).trim() === "") {
      at += 1;
      continue;
    }
    const [one, next] = block(lines, at);
    if (one) made.push(one);
    at = Math.max(next, at + 1);
  }
  return made;
}

/** A text that may be Markdown. */
export function RichText({ text }: { text: string }) {
  return <div class="md">{blocks(text.replaceAll("\r\n", "\n").split("\n"))}</div>;
}
