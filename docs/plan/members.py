"""Renames methods and attributes by mypy's types: python docs/plan/members.py FOLDER TABLE. Temporary: goes with docs/plan.md.
Lines of TABLE: fleetlore.module.Class.member new_name
Overrides in subclasses are renamed with it; a Protocol's implementations must be listed too (a line each)."""

import ast
import collections
import os
import re
import sys

ROOT = os.path.abspath(sys.argv[1])
os.chdir(ROOT)
import mypy.build
import mypy.config_parser
import mypy.nodes as N
import mypy.options
import mypy.types as T
from mypy.fscache import FileSystemCache
from mypy.main import process_options

renames = {}
for l in open(sys.argv[2]):
    l = l.split("#")[0].strip()
    if l:
        a, b = l.split()
        renames[a] = b
names = {a.rpartition(".")[2] for a in renames}
sys.argv = ["mypy"]
fs = FileSystemCache()
sources, options = process_options([], fscache=fs)
options.incremental = False
options.export_types = True
options.preserve_asts = True
options.cache_dir = os.devnull
options.fine_grained_incremental = False
res = mypy.build.build(sources, options, fscache=fs)
print(len(res.errors), "errors before")
[print(e) for e in res.errors[:5]]
types = res.types
hits = collections.defaultdict(set)
unresolved = []
used = collections.Counter()


def infos(t):
    t = T.get_proper_type(t)
    if isinstance(t, T.Instance):
        return [t.type]
    if isinstance(t, T.UnionType):
        return [i for x in t.items for i in infos(x)]
    if isinstance(t, T.TypeType):
        return infos(t.item)
    if isinstance(t, T.TupleType):
        return [t.partial_fallback.type]
    if isinstance(t, T.CallableType):
        return [t.type_object()] if t.is_type_obj() else [t.fallback.type]
    if isinstance(t, T.Overloaded):
        return [t.type_object()] if t.is_type_obj() else []
    if isinstance(t, T.TypeVarType):
        return infos(t.upper_bound)
    if isinstance(t, T.LiteralType):
        return infos(t.fallback)
    if isinstance(t, T.NoneType):
        return []
    return []


def target(info, name):
    for c in info.mro:
        if name in c.names:
            # climb: topmost class in mro defining it that is in renames
            best = None
            for d in info.mro:
                if name in d.names and f"{d.fullname}.{name}" in renames:
                    best = f"{d.fullname}.{name}"
            return best or f"{c.fullname}.{name}"
    return None


SKIP = {"node", "info", "type", "unanalyzed_type", "analyzed", "imports", "names", "alias_deps", "func_info", "fullname"}
_attributes = {}


def attributes(cls):
    if cls not in _attributes:
        _attributes[cls] = [a for c in cls.__mro__ for a in getattr(c, "__mypyc_attrs__", getattr(c, "__slots__", ()))]
    return _attributes[cls]


def push(v, stack):
    if isinstance(v, (list, tuple)):
        for x in v:
            push(x, stack)
    elif isinstance(v, N.Node) and not isinstance(v, (N.TypeInfo, N.MypyFile)):
        stack.append(v)


class V:
    """Walks the compiled nodes by their attributes (a compiled visitor cannot be subclassed)."""

    def __init__(s, path, src):
        s.path = path
        s.lines = src.split("\n")
        s.calls = {(n.lineno, n.col_offset): n for n in ast.walk(ast.parse(src)) if isinstance(n, ast.Call)}

    def walk(s, root):
        stack, seen = [root], set()
        while stack:
            n = stack.pop()
            if id(n) in seen:
                continue
            seen.add(id(n))
            if isinstance(n, N.MemberExpr):
                s.member(n)
            elif isinstance(n, N.SuperExpr):
                s.super(n)
            elif isinstance(n, N.CallExpr):
                s.call(n)
            elif isinstance(n, N.ClassDef):
                s.class_def(n)
            for a in attributes(type(n)):
                if a in SKIP:
                    continue
                try:
                    v = getattr(n, a)
                except AttributeError:
                    continue
                push(v, stack)

    def super(s, e):
        if e.name in names and e.info:
            k = target(e.info, e.name)
            if k in renames:
                hits[s.path].add((e.end_line, e.end_column - len(e.name), e.name, renames[k]))

    def call(s, e):
        if not any(n in names for n in e.arg_names if n):
            return
        t = types.get(e.callee)
        for i in infos(t) if t is not None else []:
            for n in e.arg_names:
                if n in names:
                    k = target(i, n)
                    if k in renames:
                        node = s.calls.get((e.line, e.column))
                        for kw in node.keywords if node else []:
                            if kw.arg == n:
                                hits[s.path].add((kw.lineno, kw.col_offset, n, renames[k]))

    def member(s, e):
        if e.name in names and e.end_line:
            t = types.get(e.expr)
            got = None
            if t is not None:
                for i in infos(t):
                    k = target(i, e.name)
                    if k in renames:
                        got = k
            if got is None and isinstance(e.node, N.Node) and getattr(e.node, "fullname", None) in renames:
                got = e.node.fullname
            if got:
                hits[s.path].add((e.end_line, e.end_column - len(e.name), e.name, renames[got]))
                used[got] += 1
            elif t is None or isinstance(T.get_proper_type(t), T.AnyType):
                unresolved.append((s.path, e.end_line, e.name, str(t)))

    def class_def(s, d):
        info = d.info
        for n, sym in info.names.items():
            if n in names:
                k = target(info, n)
                if k in renames:
                    node = sym.node
                    if isinstance(node, N.Decorator):
                        s.defn(node.func, n, renames[k], k)
                    elif isinstance(node, N.OverloadedFuncDef):
                        for it in node.items:
                            s.defn(it.func if isinstance(it, N.Decorator) else it, n, renames[k], k)
                    elif isinstance(node, N.FuncDef):
                        s.defn(node, n, renames[k], k)
                    elif isinstance(node, N.Var):
                        s.var(d, n, renames[k], k)

    def defn(s, f, old, new, k):
        L = s.lines[f.line - 1]
        for ln in range(f.line - 1, min(f.line + 8, len(s.lines))):
            m = re.search(r"\bdef\s+(" + re.escape(old) + r")\b", s.lines[ln])
            if m:
                hits[s.path].add((ln + 1, m.start(1), old, new))
                used[k] += 1
                return
        unresolved.append((s.path, f.line, old, "def not found"))

    def var(s, d, old, new, k):
        for st in d.defs.body:
            if isinstance(st, N.AssignmentStmt):
                for lv in st.lvalues:
                    if isinstance(lv, N.NameExpr) and lv.name == old:
                        hits[s.path].add((lv.line, lv.column, old, new))
                        used[k] += 1


for mod, f in res.files.items():
    if f.path and f.path.endswith(".py") and not f.path.startswith("/") and ".venv" not in f.path:
        src = open(f.path, encoding="utf-8").read()
        if any(n in src for n in names):
            V(f.path, src).walk(f)
for p, hs in hits.items():
    lines = open(p, encoding="utf-8").read().split("\n")
    for ln, col, old, new in sorted(hs, reverse=True):
        L = lines[ln - 1]
        b = L.encode()
        at = None
        for base in (L,):
            if L[col : col + len(old)] == old:
                at = col
            else:
                c2 = len(b[:col].decode(errors="ignore"))
                if L[c2 : c2 + len(old)] == old:
                    at = c2
        if at is None:
            print("MISPLACED", p, ln, col, old, L.strip()[:80])
            continue
        lines[ln - 1] = L[:at] + new + L[at + len(old) :]
    open(p, "w", encoding="utf-8").write("\n".join(lines))
for a in renames:
    if not used[a]:
        print("UNUSED", a)
for u in unresolved[:60]:
    print("UNRESOLVED", *u)
print("changed", len(hits), "files", sum(map(len, hits.values())), "places")
