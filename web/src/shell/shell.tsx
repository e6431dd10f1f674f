import { useSignalEffect } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

import { locked } from "../api";
import { meta } from "../meta";
import { pages, type Page } from "../pages";
import { go, word } from "../router";
import { switchTheme, theme } from "../theme";
import { Drawer, closeDrawer } from "../ui/drawer";
import { Empty, Teach } from "../ui/empty";
import { plain } from "../ui/hostile";
import { Banners } from "./banners";
import { Help, toggleHelp } from "./help";
import { Icon } from "./icons";
import { Lock } from "./lock";
import { Notices } from "./notices";
import { Palette, togglePalette } from "./palette";
import { ConnectionMark, Rail, SubPages } from "./rail";
import { openSearch } from "./search";
import { Slider } from "./slider";
import { muted, needed, permission, ringBell } from "./watch";

const missing: Page = { path: "missing", title: "Page not found", key: "", icon: "", view: Missing, alone: true };

/** The page of an address; the first one for none. An unknown address says so. */
function pageOf(path: string): Page {
  return path === "" ? (pages[0] as Page) : pages.find((page) => page.path === path) ?? missing;
}

function Missing() {
  return (
    <Empty title="There is no such page" hint={`${plain(location.pathname)} does not exist. Choose a page from the menu, or press Ctrl K to find a session.`}>
      <button type="button" class="button" onClick={() => go("now")}>Now</button>
    </Empty>
  );
}

function Bell() {
  const asking = permission.value === "default" && !muted.value;
  const said = muted.value ? "Notifications are off: turn them on" : asking ? "Allow notifications when this page is hidden" : "Turn notifications off";
  return (
    <button type="button" class="button icon" onClick={() => void ringBell()} aria-pressed={!muted.value} aria-label={said} title={said}>
      <Icon name={muted.value ? "mute" : "bell"} />
    </button>
  );
}

function TopBar({ page }: { page: Page }) {
  const dark = theme.value === "dark";
  return (
    <header class="top">
      <h1>{page.title}</h1>
      <ConnectionMark />
      <button type="button" class="search-button" onClick={openSearch} aria-label="Search all text">
        <Icon name="search" /> <span>Search all text</span> <kbd aria-hidden="true">/</kbd>
      </button>
      <button type="button" class="button icon palette-button" onClick={togglePalette} aria-label="Pages and commands" title="Pages and commands (Ctrl K)"><Icon name="more" /></button>
      <Bell />
      <button type="button" class="button icon" onClick={switchTheme} aria-label={dark ? "Light theme" : "Dark theme"} title={dark ? "Light theme" : "Dark theme"}>
        <Icon name={dark ? "sun" : "moon"} />
      </button>
      <button type="button" class="button icon" onClick={toggleHelp} aria-label="Help" title="Keyboard shortcuts (?)"><Icon name="help" /></button>
    </header>
  );
}

function Room({ page }: { page: Page }) {
  const scroller = useRef<HTMLElement>(null);
  const before = useRef(page);
  useLayoutEffect(() => {
    // Not at first: a key may have opened the drawer before this runs.
    if (before.current === page) return;
    before.current = page;
    closeDrawer();
    scroller.current?.scrollTo(0, 0);
  }, [page]);
  const View = page.view;
  return (
    <main id="page" class={`page page-${page.path}`} ref={scroller} tabIndex={-1}>
      <SubPages here={page} />
      {meta.value?.events === 0 && meta.value.caught_up && !page.alone ? <Teach /> : <View key={page.path} />}
    </main>
  );
}

export function Shell() {
  const page = pageOf(word.value);
  useSignalEffect(() => {
    const badge = needed.value > 0 ? `(${needed.value}) ` : "";
    const town = meta.value ? ` · ${plain(meta.value.town, 40)}` : "";
    document.title = `${badge}${pageOf(word.value).title}${town} · Fleetlore`;
  });
  if (locked.value) return <Lock />;
  return (
    <div class="shell">
      <a class="skip" href="#page">Skip to the page</a>
      <Rail here={page} />
      <div class="middle">
        <TopBar page={page} />
        <Banners />
        <Room page={page} />
        <Slider />
      </div>
      <Drawer />
      <Notices />
      <Help />
      <Palette />
    </div>
  );
}
