"""Moves, merges and renames modules and their top-level names, rewriting imports everywhere. Temporary: goes with docs/plan.md.

    python docs/plan/codemod.py FOLDER TABLE

Lines of TABLE (module names without `fleetlore.`; `tests.…` as they are):

    new.module: old.module [old.module …]      move, or merge in this order
    prefix old.package new.package             move everything below
    dir old/folder new/folder                  move files that are not Python
    name module old_name new_name              rename a top-level name; re-exports and `module.name` follow

Then: ruff check --select I,F401,RUF022 --fix, ruff format, mypy. Strings (`__all__`, monkeypatch, quoted annotations) need a look.
"""

import ast
import collections
import os
import re
import subprocess
import sys

ROOT, TABLE = sys.argv[1], sys.argv[2]
os.chdir(ROOT)
tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True).stdout.split("\n")
tracked = [t for t in tracked if t and os.path.isfile(t)]
pys = [t for t in tracked if t.endswith(".py")]
TREES = ("src/", "tests/", "benchmarks/", "torture/")


def modname(p):
    m = p[:-3]
    if m.startswith("src/"):
        m = m[4:]
    m = m.replace("/", ".")
    return m[:-9] if m.endswith(".__init__") else m


MODS = {modname(p): p for p in pys if p.startswith(TREES)}
full = lambda m: m if m.split(".")[0] in ("tests", "benchmarks", "torture") else "fleetlore." + m
moves = {}
groups = collections.OrderedDict()
prefixes = []
dirs = []
names = []
for line in open(TABLE):
    line = line.split("#")[0].strip()
    if not line:
        continue
    w = line.split()
    if w[0] == "prefix":
        prefixes.append((full(w[1]), full(w[2])))
        continue
    if w[0] == "dir":
        dirs.append((w[1], w[2]))
        continue
    if w[0] == "name":
        names.append((full(w[1]), w[2], w[3]))
        continue  # name old.module old_name new_name
    new, olds = line.split(":")
    new = full(new.strip())
    olds = [full(o) for o in olds.split()]
    for o in olds:
        if o not in MODS:
            sys.exit(f"no such module {o}")
        if o in moves:
            sys.exit(f"twice {o}")
        moves[o] = new
    groups[new] = olds
for m in list(MODS):
    if m in moves:
        continue
    for a, b in prefixes:
        if m == a or m.startswith(a + "."):
            moves[m] = b + m[len(a) :]
            break
for o, n in list(moves.items()):
    g = groups.setdefault(n, [])
    if o not in g:
        g.append(o)
for m in MODS:
    moves.setdefault(m, m)
for m in MODS:
    if moves[m] == m and m in groups and groups[m] != [m] and m not in groups[m] and not MODS[m].endswith("__init__.py"):
        sys.exit(f"target {m} exists and is not moved")
reports = []


class Src:
    def __init__(s, p):
        s.path = p
        s.mod = modname(p) if p.startswith(TREES) else None
        s.raw = open(p, "rb").read()
        s.tree = ast.parse(s.raw)
        ls = s.raw.split(b"\n")
        s.starts = [0]
        for l in ls:
            s.starts.append(s.starts[-1] + len(l) + 1)

    def off(s, line, col):
        return s.starts[line - 1] + col

    def span(s, n):
        return s.off(n.lineno, n.col_offset), s.off(n.end_lineno, n.end_col_offset)


files = {p: Src(p) for p in pys}


def targets(t):
    if isinstance(t, ast.Name):
        return [t.id]
    if isinstance(t, (ast.Tuple, ast.List)):
        return [n for e in t.elts for n in targets(e)]
    if isinstance(t, ast.Starred):
        return targets(t.value)
    return []


def topnames(tree):
    out = {}

    def visit(body):
        for s in body:
            if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                out.setdefault(s.name, s)
            elif isinstance(s, ast.Assign):
                for t in s.targets:
                    for n in targets(t):
                        out.setdefault(n, s)
            elif isinstance(s, (ast.AnnAssign, ast.AugAssign)):
                for n in targets(s.target):
                    out.setdefault(n, s)
            elif isinstance(s, (ast.If, ast.Try, ast.With, ast.For)):
                for f in ("body", "orelse", "finalbody"):
                    visit(getattr(s, f, []))
                for h in getattr(s, "handlers", []):
                    visit(h.body)
                if isinstance(s, ast.For):
                    for n in targets(s.target):
                        out.setdefault(n, s)

    visit(tree.body)
    return out


renamed = {}
DROPS = {}
for m, a, b in names:
    renamed[(m, a)] = b
for m, p in MODS.items():  # re-exports follow
    tr = files[p].tree
    alls = set()
    for st in tr.body:
        if isinstance(st, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in st.targets):
            alls = {e.value for e in st.value.elts}
    for st in tr.body:
        if isinstance(st, ast.ImportFrom) and st.module in MODS:
            for al in st.names:
                if (al.asname == al.name or (al.asname is None and al.name in alls)) and (st.module, al.name) in renamed:
                    renamed[(m, al.name)] = renamed[(st.module, al.name)]


def simple_code(m, name):
    for st in files[MODS[m]].tree.body:
        if isinstance(st, (ast.Assign, ast.AnnAssign)):
            t = st.targets[0] if isinstance(st, ast.Assign) else st.target
            if isinstance(t, ast.Name) and t.id == name:
                return ast.unparse(st)


for new, olds in groups.items():
    if len(olds) < 2:
        continue
    seen = {}
    for o in reversed(olds):
        for name in topnames(files[MODS[o]].tree):
            name2 = renamed.get((o, name), name)
            if name2 in seen:
                x = simple_code(o, name)
                if x is not None and x == simple_code(seen[name2], name):
                    DROPS.setdefault(o, set()).add(name)
                    continue
                nn = f"{name}_{o.split('.')[-1]}"
                renamed[(o, name)] = nn
                reports.append(f"COLLISION {new}: {name} of {o} vs {seen[name2]} -> {nn}")
            else:
                seen[name2] = o


# --- scopes
class Scope:
    def __init__(s, node, parent, kind):
        s.node, s.parent, s.kind = node, parent, kind
        s.bound = {}
        s.globals = set()


def analyse(tree):
    """name nodes with their binding: list of (node, scope_bound or None)"""
    uses = []
    top = Scope(tree, None, "module")

    def bind(sc, name, what):
        if name in sc.globals:
            t = sc
            while t.parent:
                t = t.parent
            sc = t
        sc.bound.setdefault(name, []).append(what)

    pending = []

    def visit(n, sc):
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)):
            bind(sc, n.name, n)
            uses.append((n, "def", sc))
            for d in n.decorator_list:
                visit(d, sc)
            args = n.args
            for a in args.posonlyargs + args.args + args.kwonlyargs + [x for x in (args.vararg, args.kwarg) if x]:
                if a.annotation:
                    visit(a.annotation, sc)
            for d in args.defaults + [x for x in args.kw_defaults if x]:
                visit(d, sc)
            if n.returns:
                visit(n.returns, sc)
            inner = Scope(n, sc, "function")
            for a in args.posonlyargs + args.args + args.kwonlyargs + [x for x in (args.vararg, args.kwarg) if x]:
                bind(inner, a.arg, a)
            for st in ast.walk(n):
                if isinstance(st, ast.Global):
                    inner.globals |= set(st.names)
            for st in n.body:
                visit(st, inner)
        elif isinstance(n, ast.Lambda):
            inner = Scope(n, sc, "function")
            args = n.args
            for d in args.defaults + [x for x in args.kw_defaults if x]:
                visit(d, sc)
            for a in args.posonlyargs + args.args + args.kwonlyargs + [x for x in (args.vararg, args.kwarg) if x]:
                bind(inner, a.arg, a)
            visit(n.body, inner)
        elif isinstance(n, ast.ClassDef):
            bind(sc, n.name, n)
            uses.append((n, "def", sc))
            for d in n.decorator_list + n.bases:
                visit(d, sc)
            for k in n.keywords:
                visit(k.value, sc)
            inner = Scope(n, sc, "class")
            for st in n.body:
                visit(st, inner)
        elif isinstance(n, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            inner = Scope(n, sc, "function")
            for i, g in enumerate(n.generators):
                visit(g.iter, sc if i == 0 else inner)
                visit(g.target, inner)
                for c in g.ifs:
                    visit(c, inner)
            if isinstance(n, ast.DictComp):
                visit(n.key, inner)
                visit(n.value, inner)
            else:
                visit(n.elt, inner)
        elif isinstance(n, ast.Name):
            if isinstance(n.ctx, (ast.Store, ast.Del)):
                bind(sc, n.id, n)
            uses.append((n, "name", sc))
        elif isinstance(n, ast.NamedExpr):
            t = sc
            while isinstance(t.node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
                t = t.parent
            bind(t, n.target.id, n.target)
            uses.append((n.target, "name", t))
            visit(n.value, sc)
        elif isinstance(n, (ast.Import, ast.ImportFrom)):
            for a in n.names:
                bind(sc, (a.asname or a.name).split(".")[0], (n, a))
        elif isinstance(n, ast.ExceptHandler):
            if n.type:
                visit(n.type, sc)
            if n.name:
                bind(sc, n.name, n)
            for st in n.body:
                visit(st, sc)
        elif isinstance(n, (ast.MatchAs, ast.MatchStar)):
            if n.name:
                bind(sc, n.name, n)
            for c in ast.iter_child_nodes(n):
                visit(c, sc)
        elif isinstance(n, ast.Attribute):
            uses.append((n, "attr", sc))
            visit(n.value, sc)
        else:
            for c in ast.iter_child_nodes(n):
                visit(c, sc)

    for st in tree.body:
        visit(st, top)
    return uses, top


def resolve(name, sc):
    first = True
    while sc:
        if (sc.kind != "class" or first) and name in sc.bound:
            return sc
        sc = sc.parent
        first = False
    return None


ids_of = lambda tree: (
    {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    | {a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)}
    | {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
)


def process(f):
    if not re.search(rb"fleetlore|tests|benchmarks|torture", f.raw) and not any(o == f.mod for o, _ in renamed):
        return f.raw
    edits = []
    myold = f.mod
    mynew = moves.get(myold)
    local_rename = {}
    modbind = {}
    aliased = set()
    used = ids_of(f.tree)
    added = set()
    empty_blocks = collections.Counter()
    parents = {}
    for n in ast.walk(f.tree):
        for fld in ("body", "orelse", "finalbody"):
            b = getattr(n, fld, None)
            if isinstance(b, list):
                for st in b:
                    parents[st] = (n, b)
    removed = collections.Counter()
    rem = []
    for node in ast.walk(f.tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            reports.append(f"RELATIVE {f.path}")
            continue
        mod = node.module or ""
        if mod.split(".")[0] not in ("fleetlore", "tests", "benchmarks", "torture") or node.names[0].name == "*":
            continue
        out = collections.OrderedDict()
        changed = False
        for al in node.names:
            name = al.name
            local = al.asname or name
            fm = f"{mod}.{name}"
            if fm in MODS:
                new = moves[fm]
                if new == mynew and fm != myold:
                    changed = True
                    modbind[(id(node), local)] = (fm, None)
                    continue
                par, base = new.rpartition(".")[0], new.rpartition(".")[2]
                if new == fm or al.asname or base == name:
                    out.setdefault(par, []).append((base, al.asname if al.asname and al.asname != base else None))
                    changed |= new != fm
                    modbind[(id(node), local)] = (fm, local)
                elif base in used or base in added or base in ("file", "log", "open", "help", "test", "range", "types"):
                    changed = True
                    al2 = par.rpartition(".")[2] + "_" + base
                    if al2.startswith("fleetlore_") or al2 in used or (al2 in added and (new, al2) not in aliased):
                        al2 = local
                        reports.append(f"ALIAS {f.path}: {new} as {local}")
                    out.setdefault(par, []).append((base, al2))
                    modbind[(id(node), local)] = (fm, al2)
                    if al2 != local:
                        local_rename[(id(node), local)] = al2
                        added.add(al2)
                        aliased.add((new, al2))
                else:
                    changed = True
                    out.setdefault(par, []).append((base, None))
                    added.add(base)
                    local_rename[(id(node), local)] = base
                    modbind[(id(node), local)] = (fm, base)
            elif mod in MODS:
                new = moves[mod]
                nn = renamed.get((mod, name), name)
                if new == mynew and mod != myold:
                    changed = True
                    if local != nn:
                        local_rename[(id(node), local)] = nn
                    continue
                changed |= new != mod or nn != name
                out.setdefault(new, []).append(
                    (nn, (nn if al.asname == name else al.asname) if al.asname and (al.asname != nn or al.asname == name) else None)
                )
                if (not al.asname or al.asname == name) and nn != name:
                    local_rename[(id(node), local)] = nn
            else:
                out.setdefault(mod, []).append((name, al.asname))
        if changed:
            s, e = f.span(node)
            indent = " " * node.col_offset
            text = ("\n" + indent).join(
                f"from {m} import " + ", ".join(a if not b else f"{a} as {b}" for a, b in dict.fromkeys(v)) for m, v in out.items()
            )
            if not text:
                removed[id(parents[node][1])] += 1
                rem.append((node, s, e))
                continue
            edits.append((s, e, text.encode()))
    for node, s, e in rem:
        _, blk = parents[node]
        if removed[id(blk)] == len(blk):
            edits.append((s, e, b"pass"))
        else:
            ls = f.raw.rfind(b"\n", 0, s) + 1
            le = f.raw.find(b"\n", e)
            edits.append((ls, le + 1, b""))
    own = {n: nn for (o, n), nn in renamed.items() if o == myold}
    if local_rename or modbind or own:
        uses, top = analyse(f.tree)
        done = set()
        inlined = set()
        for n, kind, sc in uses:
            if kind == "attr" and isinstance(n.value, ast.Name):
                b = resolve(n.value.id, sc)
                if b is None:
                    continue
                for w in b.bound[n.value.id]:
                    if isinstance(w, tuple) and (id(w[0]), n.value.id) in modbind:
                        oldm, loc = modbind[(id(w[0]), n.value.id)]
                        nat = renamed.get((oldm, n.attr), n.attr)
                        s, e = f.span(n)
                        if loc is None and resolve(nat, sc) not in (None, top):
                            reports.append(f"INLINE-SHADOW {f.path}:{n.lineno} {nat}")
                        if loc is None:
                            edits.append((s, e, nat.encode()))
                            inlined.add(id(n.value))
                        elif nat != n.attr:
                            edits.append((e - len(n.attr.encode()), e, nat.encode()))
                        break
        for n, kind, sc in uses:
            if kind == "attr" or id(n) in inlined:
                continue
            name = n.id if kind == "name" else n.name
            b = resolve(name, sc)
            if b is None:
                continue
            for w in b.bound[name]:
                if isinstance(w, tuple):
                    k = (id(w[0]), name)
                    if k in modbind and modbind[k][1] is None:
                        reports.append(f"INLINE-BARE {f.path}:{n.lineno} {name}")
                    if k in local_rename and kind == "name":
                        s, e = f.span(n)
                        edits.append((s, e, local_rename[k].encode()))
                        break
                elif b is top and name in own:
                    if kind == "name":
                        s, e = f.span(n)
                        edits.append((s, e, own[name].encode()))
                    else:
                        s = f.off(n.lineno, n.col_offset)
                        seg = f.raw[s:]
                        m_ = re.match(rb"(?:async\s+)?(?:def|class)\s+", seg)
                        edits.append((s + m_.end(), s + m_.end() + len(name.encode()), own[name].encode()))
                    break
    res = []
    last = 0
    for s, e, t in sorted(set(edits)):
        if s < last:
            reports.append(f"OVERLAP {f.path} {f.raw[s:e]!r}")
            continue
        res += [f.raw[last:s], t]
        last = e
    res.append(f.raw[last:])
    return b"".join(res)


for f in files.values():
    f.new = process(f).decode()
# --- strings
srcpairs = [(o, n) for o, n in moves.items() if o != n]
by_len = lambda xs: sorted(xs, key=lambda x: -len(x[0]))
exclude = {"fleetlore.extensions"}
dmap = dict(srcpairs)
newset = set(moves.values())
dot = re.compile(r"(?<![\w./-])(?:fleetlore|tests|benchmarks|torture)(?:\.[A-Za-z_]\w*)+")


def dotfix(m):
    parts = m.group(0).split(".")
    for i in range(len(parts), 1, -1):
        p = ".".join(parts[:i])
        if p in newset and not (p in dmap and i == len(parts) and p not in exclude and False):
            if p not in dmap:
                return m.group(0)
            # p is both an old moved module and a new package/module
            if i < len(parts):
                return m.group(0)
        if p in dmap and p not in exclude:
            return ".".join([dmap[p]] + parts[i:])
    return m.group(0)


pmap = {}
for o, n in srcpairs:
    op = MODS[o]
    init = op.endswith("__init__.py")
    if op.startswith("src/"):
        pmap[op[len("src/fleetlore/") :]] = n[len("fleetlore.") :].replace(".", "/") + ("/__init__.py" if init else ".py")
    else:
        pmap[op] = n.replace(".", "/") + ("/__init__.py" if init else ".py")
pmap = {a: b for a, b in pmap.items() if "/" in a}
ppat = re.compile(r"(?<![\w/.-])((?:src/fleetlore/)?)(" + "|".join(re.escape(o) for o, _ in by_len(pmap.items())) + r")(?![\w])")


def textfix(s):
    s = dot.sub(dotfix, s)
    return ppat.sub(lambda m: m.group(1) + pmap[m.group(2)], s) if pmap else s


def split_header(text, drops=()):
    t = ast.parse(text)
    L = text.split("\n")
    prev = 0
    doc = None
    imps = []
    tc = []
    body = []
    for i, st in enumerate(t.body):
        start = min([st.lineno] + [d.lineno for d in getattr(st, "decorator_list", [])])
        between = L[prev : start - 1]
        lead = "\n".join(between)
        code = "\n".join(L[start - 1 : st.end_lineno])
        prev = st.end_lineno
        # trailing comment on same line is inside L slice already
        if i == 0 and isinstance(st, ast.Expr) and isinstance(st.value, ast.Constant) and isinstance(st.value.value, str):
            doc = code
            continue
        if isinstance(st, (ast.Import, ast.ImportFrom)):
            if getattr(st, "module", "") == "__future__":
                continue
            if lead.strip():
                reports.append(f"IMPORT-COMMENT {lead.strip()[:80]}")
            imps.append((lead.strip() + "\n" if lead.strip() else "") + code)
            continue
        if (
            isinstance(st, ast.If)
            and isinstance(st.test, ast.Name)
            and st.test.id == "TYPE_CHECKING"
            and not st.orelse
            and all(isinstance(x, (ast.Import, ast.ImportFrom, ast.Pass)) for x in st.body)
        ):
            tc += ["\n".join(L[x.lineno - 1 : x.end_lineno]) for x in st.body if not isinstance(x, ast.Pass)]
            continue
        tt = st.targets[0] if isinstance(st, ast.Assign) else st.target if isinstance(st, ast.AnnAssign) else None
        if isinstance(tt, ast.Name) and tt.id in drops:
            nxt = t.body[i + 1] if i + 1 < len(t.body) else None
            continue
        if isinstance(st, ast.Expr) and isinstance(st.value, ast.Constant) and i and isinstance(t.body[i - 1], (ast.Assign, ast.AnnAssign)):
            pt = t.body[i - 1]
            pt = pt.targets[0] if isinstance(pt, ast.Assign) else pt.target
            if isinstance(pt, ast.Name) and pt.id in drops:
                continue
        body.append(lead + "\n" + code if between and (body or lead.strip()) else code)
    tail = "\n".join(L[prev:])
    return doc, imps, tc, "\n".join(body) + ("\n" + tail if tail.strip() else "")


out = {}
for new, olds in groups.items():
    base = ("src/" if new.startswith("fleetlore") else "") + new.replace(".", "/")
    if len(olds) == 1:
        out[base + ("/__init__.py" if MODS[olds[0]].endswith("__init__.py") else ".py")] = files[MODS[olds[0]]].new
        continue
    imps = []
    tcs = []
    parts = []
    for o in olds:
        d, i, tc, b = split_header(files[MODS[o]].new, DROPS.get(o, ()))
        imps += i
        tcs += tc
        parts.append((o, d, b.strip("\n")))
    doc = parts[-1][1]
    origin = {}
    for o, d, b in parts:
        tr = ast.parse(files[MODS[o]].new)
        for st in ast.walk(tr):
            if isinstance(st, (ast.Import, ast.ImportFrom)) and st.col_offset == 0:
                for a in st.names:
                    nm = (a.asname or a.name).split(".")[0]
                    org = (getattr(st, "module", None), a.name)
                    if origin.setdefault(nm, org) != org:
                        reports.append(f"IMPORT-COLLISION {new}: {nm} {origin[nm]} vs {org} in {o}")
        for nm in topnames(tr):
            if nm in DROPS.get(o, ()):
                continue
            if origin.setdefault(nm, ("def", o)) != ("def", o):
                reports.append(f"IMPORT-COLLISION {new}: {nm} {origin[nm]} vs def in {o}")
    text = (doc or "") + "\n\nfrom __future__ import annotations\n\n" + "\n".join(dict.fromkeys(imps)) + "\n"
    if tcs:
        text += "\nif TYPE_CHECKING:\n" + "\n".join(dict.fromkeys(tcs)) + "\n"
    for o, d, b in parts:
        first = (d or '""').strip().strip('"').strip().split("\n")[0]
        text += ("\n\n# --- " + first + "\n\n" if o != olds[-1] else "\n\n# ---\n\n") + b + "\n"
    out[base + ".py"] = text
moved = {MODS[o] for o in moves if moves[o] != o}
for p, f in files.items():
    if p not in moved and p not in out:
        out[p] = f.new
for p in tracked:
    if p.endswith((".md", ".toml", ".mjs", ".ts", ".tsx", ".yml", ".pyi", ".c")) or p in ("Makefile",):
        s = open(p, encoding="utf-8").read()
        s2 = textfix(s)
        if s2 != s:
            open(p, "w", encoding="utf-8").write(s2)
for o in moves:
    n = moves[o]
    if o != n:
        pass
# git mv for history where 1:1
for p in moved:
    if p not in out:
        os.remove(p)
for p, t in out.items():
    os.makedirs(os.path.dirname(p) or ".", exist_ok=True)
    t2 = (
        re.sub(r"(?m)^(?![ ]*(?:from|import) (?:fleetlore|tests|benchmarks|torture)).*$", lambda m: textfix(m.group(0)), t)
        if p.endswith(".py")
        else textfix(t)
    )
    if not os.path.exists(p) or open(p, encoding="utf-8").read() != t2:
        open(p, "w", encoding="utf-8").write(t2)
for a, b in dirs:
    if os.path.exists(a):
        os.makedirs(b, exist_ok=True)
        subprocess.run(f"cp -r {a}/. {b}/ && rm -rf {a}", shell=True, check=True)
for p in list(out):
    if p.startswith(("src/fleetlore/", "tests/")):
        d = os.path.dirname(p)
        while d not in ("src/fleetlore", "tests", "src", ""):
            init = d + "/__init__.py"
            if not os.path.exists(init) and "demo_files" not in d and "fixtures" not in d:
                open(init, "w").write("")
                reports.append("INIT " + init)
            d = os.path.dirname(d)
for root in ("src/fleetlore", "tests"):
    for d, ds, fs in os.walk(root, topdown=False):
        if "__pycache__" in d or d == root:
            continue
        rest = [x for x in os.listdir(d) if x != "__pycache__"]
        if rest in ([], ["__init__.py"]):
            m = ("fleetlore" + d[len("src/fleetlore") :] if root.startswith("src") else d).replace("/", ".")
            if m in moves and not any(n.startswith(m + ".") for n in moves.values()):
                subprocess.run(["rm", "-rf", d])
                reports.append("RMDIR " + d)
print("\n".join(reports))
print(len(reports), "reports;", sum(1 for o, n in moves.items() if o != n), "moved")
