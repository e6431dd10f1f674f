import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { calm } from "../theme";

const NEAR = 90;

function page(): HTMLElement | null {
  return document.getElementById("page");
}

/** Scrolls to the end of the page. */
export function toEnd(): void {
  page()?.scrollTo({ top: page()?.scrollHeight ?? 0, behavior: calm.matches ? "auto" : "smooth" });
}

/** Keeps the reader's place while text comes in: at the end he stays at the end; anywhere else what he reads does not move.
 *  Gives whether something new was told below what he sees. He begins at the end, unless told otherwise. */
export function usePlace({ told, newest, oldest, atEnd = true }: { told: unknown; newest: string; oldest: string; atEnd?: boolean }): boolean {
  const [unseen, setUnseen] = useState(false);
  const stuck = useRef(atEnd);
  const height = useRef(0);
  const ends = useRef({ newest: "", oldest: "" });

  useEffect(() => {
    const scroller = page();
    const look = (): void => {
      if (!scroller) return;
      stuck.current = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR;
      if (stuck.current) setUnseen(false);
    };
    scroller?.addEventListener("scroll", look, { passive: true });
    return () => scroller?.removeEventListener("scroll", look);
  }, []);

  useLayoutEffect(() => {
    const scroller = page();
    if (!scroller) return;
    const last = ends.current;
    const grewAbove = last.oldest !== "" && last.oldest !== oldest;
    // Text that was put above the reader would push down what he reads; the browser anchors, but not at the very top.
    if (grewAbove && scroller.scrollTop < 4) scroller.scrollTop += scroller.scrollHeight - height.current;
    else if (stuck.current) scroller.scrollTop = scroller.scrollHeight;
    if (!stuck.current && last.newest !== "" && last.newest !== newest) setUnseen(true);
    height.current = scroller.scrollHeight;
    ends.current = { newest, oldest };
  }, [told, newest, oldest]);

  return unseen;
}
