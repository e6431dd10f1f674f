/** A few choices side by side, of which one holds. */
export function Switch({ label, value, options, choose }: {
  label: string;
  value: string;
  options: readonly (readonly [value: string, word: string])[];
  choose: (value: string) => void;
}) {
  return (
    <div class="switch" role="group" aria-label={label}>
      {options.map(([one, said]) => (
        <button key={one} type="button" aria-pressed={one === value} onClick={() => choose(one)}>{said}</button>
      ))}
    </div>
  );
}
