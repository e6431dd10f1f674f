"""What counts of a workspace's files, now or by the rules of an earlier moment; and how they are put back."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from fleetlore.runtime.driver.workspace import files
from fleetlore.runtime.driver.workspace.digests import Digests
from fleetlore.runtime.driver.workspace.rules import RulesOf, rules
from fleetlore.runtime.driver.workspace.snapshots import Kept, Read, Snapshot, Store


class Content:
    """The files below a root; but for what is passed over."""

    def __init__(self, root: str, store: Store, passed_over: Collection[str]) -> None:
        self._root, self._store, self._passed_over = root, store, passed_over
        self._digests = Digests(root, store)

    def now(self, also: Collection[str]) -> dict[str, Kept]:
        """All that counts: what the rules that lie there do not ignore, and what is named besides."""
        return self._seen(lambda folder: files.rules_in(self._root, folder), also)

    def by(
        self, snapshot: Snapshot, *, within: Callable[[str], bool] | None = None, known: Collection[str] | None = None
    ) -> dict[str, Kept]:
        """All that counts by the rules of a snapshot, in the folders `within`. Of what is not `known`, the content is not read."""
        return self._seen(self._rules_of(snapshot), snapshot.things if known is None else known, within=within, known=known)

    def _seen(
        self, rules_of: RulesOf, also: Collection[str], *, within: Callable[[str], bool] | None = None, known: Collection[str] | None = None
    ) -> dict[str, Kept]:
        with rules(self._store.git_dir, rules_of, base=self._store.exclude) as ignored:
            found = dict(files.walk(self._root, ignored, passed_over=self._passed_over, within=within))
        for path in also:
            if path not in found and (one := files.seen(self._root, path)) and one.kind != "folder":
                found[path] = one
        return {path: self._digests.kept(path, one, read=known is None or path in known) for path, one in sorted(found.items())}

    def _rules_of(self, snapshot: Snapshot) -> RulesOf:
        """The rules as they were, whatever was done to them since."""
        with self._store.reading() as read:
            held = {
                os.path.dirname(path): read(thing.sha, "blob")
                for path, thing in snapshot.things.items()
                if thing.kind == "file" and os.path.basename(path) == files.RULES
            }
        return held.get

    def put_back(self, snapshot: Snapshot) -> None:
        """Have all that counts as it was: what came since goes, what was changed or went is there again."""
        now, then = self.by(snapshot), snapshot.things
        replaced = {path for path, thing in then.items() if thing.kind == "other" and path in now and now[path].kind != "other"}
        for path in sorted(replaced.union(now.keys() - then.keys()), reverse=True):
            # Of a folder that came since, what is ignored stays.
            (files.remove_empty if now[path].kind == "folder" else files.remove)(self._root, path)
        with self._store.reading() as read:
            for path, thing in snapshot.things.items():
                if thing.sha and now.get(path) != thing:
                    self._put(read, path, thing)
        for path, thing in sorted(snapshot.things.items(), reverse=True):
            if thing.kind == "folder":
                files.put_folder(self._root, path, mode=thing.mode)

    def _put(self, read: Read, path: str, thing: Kept) -> None:
        if thing.kind == "link":
            files.put_link(self._root, path, read(thing.sha, "blob"))
        else:
            files.put_file(self._root, path, mode=thing.mode, fill=lambda file: read.copy(thing.sha, file))

    def wrong(self, snapshot: Snapshot) -> list[str]:
        """What is not as it was. What could not be kept is not asked for, nor folders that came since: what is ignored may lie there."""
        now, then = self.by(snapshot), snapshot.things
        lost = {path for path, thing in then.items() if thing.kind == "other" and path not in now}
        left = {path for path, thing in now.items() if thing.kind == "folder" and path not in then}
        return sorted(path for path in (now.keys() | then.keys()) - lost - left if now.get(path) != then.get(path))
