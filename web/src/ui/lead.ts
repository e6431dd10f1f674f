/** The part of a name that many share: a path, or what stands before a colon. What follows it tells one from another. */
export function leadOf(name: string): string {
  const colon = name.indexOf(": ");
  const ends = colon >= 0 ? colon + 2 : name.lastIndexOf("/") + 1;
  return ends < name.length ? name.slice(0, ends) : "";
}
