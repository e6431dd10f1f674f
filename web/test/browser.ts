/** As much of a browser as the modules want at import: an address, a visible document, and frames that come at once. */
const quiet = () => undefined;

Object.assign(globalThis, {
  location: { pathname: "/fleet", search: "", hash: "", origin: "http://room" },
  history: { pushState: quiet, replaceState: quiet },
  document: { hidden: false, addEventListener: quiet },
  addEventListener: quiet,
  requestAnimationFrame: (frame: () => void) => setImmediate(frame),
  setInterval: () => 0,
});
