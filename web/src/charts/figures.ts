/** Numbers as people read them. */

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const cents = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** `$0.0042`, `$12.40`, `$1,204`; a dash where no price is known. */
export function dollars(usd: number | null | undefined): string {
  if (usd === null || usd === undefined || !Number.isFinite(usd)) return "–";
  if (usd === 0) return "$0";
  const size = Math.abs(usd);
  const sign = usd < 0 ? "−" : "";
  if (size >= 999.995) return `${sign}$${whole.format(size)}`;
  if (size >= 0.095) return `${sign}$${cents.format(size)}`;
  if (size < 0.00005) return `${sign}< $0.0001`;
  return `${sign}$${plain(Number(size.toPrecision(2)))}`;
}

/** Round steps from zero to a little above `most`, about so many. */
export function niceSteps(most: number, about = 4): number[] {
  if (!(most > 0) || !Number.isFinite(most)) return [0];
  const rough = most / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((one) => one >= rough) ?? power * 10;
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, n) => Number((n * step).toPrecision(12)));
}

/** A part of a whole from 0 to 1, whatever the two are. */
export function share(part: number | null | undefined, of: number): number {
  return !part || !(of > 0) ? 0 : Math.min(1, Math.max(0, part / of));
}

function plain(value: number): string {
  return value.toFixed(6).replace(/0+$/, "").replace(/\.$/, "");
}
