"""What the page looks like: one column on a phone, a margin for arcs where there is room, light or dark as the reader has it."""

from __future__ import annotations

CSS = """\
:root { color-scheme: light dark;
  --ink: #22252a; --dim: #666c74; --paper: #fbfaf7; --line: #dedbd2; --note: #f2efe6;
  --work: #4a7bb0; --done: #3d8f5f; --trouble: #c2523c; --talk: #8a6bb1; --quiet: #b9b6ad; }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e3e1dc; --dim: #9a9a95; --paper: #17191c; --line: #34373c; --note: #202327;
  --work: #78a9dc; --done: #6dbd8c; --trouble: #e8836c; --talk: #b79bdc; --quiet: #62656b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 1.0625rem/1.6 Georgia, "Iowan Old Style", "Noto Serif", "DejaVu Serif", serif; overflow-wrap: anywhere; }
main { max-width: 62rem; margin: 0 auto; padding: 1.25rem 1rem 4rem; }
h1, h2, h3, aside, figcaption, details, .n { font-family: system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .4rem; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
h3 { font-size: .8rem; letter-spacing: .03em; color: var(--dim); margin: 0 0 .15rem; }
.lead { margin: 0 0 1rem; }
figure { margin: 0; }
svg { display: block; width: 100%; height: 4.5rem; border-bottom: 1px solid var(--line); }
rect { fill: var(--c); }
.f-work { --c: var(--work); } .f-done { --c: var(--done); } .f-trouble { --c: var(--trouble); }
.f-talk { --c: var(--talk); } .f-quiet { --c: var(--quiet); }
figcaption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: .1rem 1rem;
  font-size: .72rem; color: var(--dim); margin-top: .3rem; }
.keys { flex-basis: 100%; }
.key { white-space: nowrap; margin-right: .7rem; }
.key::before { content: ""; display: inline-block; width: .6em; height: .6em; margin-right: .3em; background: var(--c); }
article { margin: 1.4rem 0; }
.prose, .prose p { margin: 0; }
.prose p + p { margin-top: .6rem; }
ul.prose { padding-left: 1.1rem; }
a { color: inherit; text-decoration: none; }
a.s { text-decoration: underline transparent; text-decoration-thickness: 1px; text-underline-offset: .2em; }
a.setback, a.release { text-decoration-color: var(--trouble); }
a.deliver, a.feat, a.recovery { text-decoration-color: var(--done); }
a.s:hover, a.s:focus-visible { text-decoration-color: currentColor; }
.n { font-size: .72rem; color: var(--dim); }
aside { font-size: .82rem; line-height: 1.45; margin: .5rem 0; padding: .5rem .7rem;
  background: var(--note); border-left: 3px solid var(--talk); }
aside b { display: block; font-size: .7rem; letter-spacing: .04em; color: var(--dim); }
aside small { color: var(--dim); }
aside small a { text-decoration: underline; }
aside.rescue, aside.comeback, aside.milestone, aside.solo-sprint, aside.struggle-and-recovery { border-color: var(--done); }
aside.cascade, aside.budget-death, aside.collision, aside.stall { border-color: var(--trouble); }
details { font-size: .75rem; color: var(--dim); margin-top: .25rem; }
summary { cursor: pointer; }
details ol { margin: .3rem 0; padding-left: 1.8rem; }
code { font-size: .95em; padding: 0 .15em; }
:target { background: var(--work); color: var(--paper); }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); }
@media (min-width: 56rem) {
  article { display: grid; grid-template-columns: minmax(0, 38rem) minmax(0, 1fr); column-gap: 2rem; align-items: start; }
  article > * { grid-column: 1; }
  .margin { grid-column: 2; grid-row: 1 / span 3; }
  aside { margin: 0 0 .6rem; }
  footer, header .lead { max-width: 38rem; }
}
@media print { details { display: none; } }
"""
