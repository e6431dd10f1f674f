import type { ComponentType } from "preact";

/** A page. Adding one takes one module and one entry in `index.ts`. */
export interface Page {
  /** The first word in the address. */
  path: string;
  title: string;
  /** The key that opens it. */
  key: string;
  /** The drawing in the navigation: one path on a 24 × 24 field, stroked. */
  icon: string;
  view: ComponentType;
  /** Whether it has something to show though nothing has happened yet. */
  alone?: boolean;
}
