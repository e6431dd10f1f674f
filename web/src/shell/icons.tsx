const DRAWN = {
  search: "M11 4a7 7 0 1 1 0 14 7 7 0 0 1 0-14zm5 12 4.5 4.5",
  bell: "M6 17V11a6 6 0 0 1 12 0v6l1.5 2h-15zM10 21.5h4",
  mute: "M6 17V11a6 6 0 0 1 9-5.2M18 11v6l1.5 2h-15M10 21.5h4M4 3.5l16 17",
  sun: "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
  moon: "M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z",
  help: "M9 9a3 3 0 1 1 4.2 2.8c-.8.4-1.2 1-1.2 1.9v.5M12 17.6v.2",
  more: "M4.5 12a.9.9 0 1 0 1.8 0 .9.9 0 1 0-1.8 0M11.1 12a.9.9 0 1 0 1.8 0 .9.9 0 1 0-1.8 0M17.7 12a.9.9 0 1 0 1.8 0 .9.9 0 1 0-1.8 0",
  back: "M15 5.5 8.5 12l6.5 6.5",
  on: "M9 5.5 15.5 12 9 18.5",
  play: "M8 5.5v13l10.5-6.5z",
  pause: "M8.5 5.5v13M15.5 5.5v13",
} as const;

type IconName = keyof typeof DRAWN;

/** One stroked path on a 24 × 24 field; the word beside it, or the button's label, says what it means. */
export function Drawn({ path, size = 18 }: { path: string; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true"><path d={path} /></svg>
  );
}

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return <Drawn path={DRAWN[name]} size={size} />;
}
