import { useEffect, useState } from "preact/hooks";

import { get, query, type Params } from "./api";
import type { View } from "./moment";

/** An answer that is asked for once for each address (and each `turn`): what does not change by itself, such as events by their id. */
export function useFixed<T>(path: string, params: Params = {}, turn: unknown = null): View<T> {
  const [view, set] = useState<View<T>>({ data: null, error: null, loading: true });
  useEffect(() => {
    const abort = new AbortController();
    set((last) => ({ ...last, loading: true }));
    get<T>(path, params, abort.signal).then(
      (data) => set({ data, error: null, loading: false }),
      (error: Error) => abort.signal.aborted || set({ data: null, error, loading: false }),
    );
    return () => abort.abort();
  }, [path + query(params), turn]);
  return view;
}
