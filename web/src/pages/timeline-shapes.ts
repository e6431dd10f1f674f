/** The marks of beats on a canvas: the same shapes as everywhere else (`ui/beat.tsx`), so that colour alone never carries the meaning. */

import type { Family } from "../api/types";

export const SIZE = 5;

type Draw = (path: Path2D, x: number, y: number, scale: number) => void;

export const MARKS: Readonly<Record<Family, Draw>> = {
  work: (path, x, y, scale) => path.rect(x - 1.8 * scale, y - 4.4 * scale, 3.6 * scale, 8.8 * scale),
  done: (path, x, y, scale) => {
    path.moveTo(x + 4.8 * scale, y);
    path.arc(x, y, 4.8 * scale, 0, Math.PI * 2);
  },
  trouble: (path, x, y, scale) => outline(path, [[x, y - 5.4 * scale], [x + 5.6 * scale, y + 4.4 * scale], [x - 5.6 * scale, y + 4.4 * scale]]),
  talk: (path, x, y, scale) =>
    outline(path, [[x, y - 4.6 * scale], [x + 4.6 * scale, y], [x, y + 4.6 * scale], [x - 4.6 * scale, y]]),
  quiet: (path, x, y, scale) => {
    path.moveTo(x + 1.6 * scale, y);
    path.arc(x, y, 1.6 * scale, 0, Math.PI * 2);
  },
};

function outline(path: Path2D, corners: readonly (readonly [number, number])[]): void {
  corners.forEach(([x, y], index) => (index === 0 ? path.moveTo(x, y) : path.lineTo(x, y)));
  path.closePath();
}
