# SPDX-License-Identifier: Apache-2.0
"""Which Python files of a folder have to do with kernels: those that import an nki package or have a function under
@nki.jit, and those that import another such file. Nothing is executed to find out.
"""
import ast
import importlib.util
import os
import sys

_PACKAGES = {"nki", "neuronxcc"}


def of_kernels(trees, folder):
    """The files, by absolute path, of those whose syntax trees are given by path, that have to do with kernels."""
    folder = os.path.abspath(folder)
    known = {os.path.abspath(path): tree for path, tree in trees.items()}
    search = _Search(known, folder)
    importers, found = {}, []
    for path, tree in known.items():
        places = _Places(path, tree, folder)
        if any(_under_nki_jit(node) for node in ast.walk(tree)):
            found.append(path)
        for base, parts in _imports(path, tree):
            if base is None and parts[0] in _PACKAGES:
                found.append(path)
            else:
                for other in search.files_of(base, parts, places):
                    importers.setdefault(other, []).append(path)
    reached = set()
    while found:
        path = found.pop()
        if path not in reached:
            reached.add(path)
            found += importers.get(path, [])
    return reached


def _under_nki_jit(node):
    """Whether this is a function under @nki.jit, whatever module the name nki came from; other packages have a jit, too."""
    for decorator in getattr(node, "decorator_list", []):
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if not isinstance(target, ast.Attribute) or target.attr != "jit":
            continue
        if any(part.startswith("nki") for part in ast.unparse(target.value).split(".")):
            return True
    return False


def _imports(path, tree):
    """What a file imports: (folder that a relative import starts from, or None; the parts of the module's name)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield None, alias.name.split(".")
        elif isinstance(node, ast.ImportFrom):
            base = path if node.level else None
            for _ in range(node.level):
                base = os.path.dirname(base)
            module = node.module.split(".") if node.module else []
            for alias in node.names:  # Which may be a module or a name in one
                yield base, module + [alias.name]


class _Places:
    """The folders that a file's imports are looked for in."""

    def __init__(self, path, tree, folder):
        own = os.path.dirname(path)
        between, above = [], own
        while above != folder and above.startswith(os.path.join(folder, "")):
            above = os.path.dirname(above)
            between += [above, os.path.join(above, "src")]
        # A script that changes its path does so to have files of its project, whatever else is installed.
        self.changed = any(_changes_path(node) for node in ast.walk(tree))
        first = [own, folder, os.path.join(folder, "src")]  # As they are when files are run
        self.before_installed, self.after = (first + between, []) if self.changed else (first, between)


def _changes_path(node):
    """Whether this is sys.path, or a call that adds to it."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "sys" and any(alias.name == "path" for alias in node.names)
    if not isinstance(node, ast.Attribute):
        return False
    return node.attr == "addsitedir" or node.attr == "path" and getattr(node.value, "id", "").endswith("sys")


class _Search:
    """Finds the files of imports among those that are known."""

    def __init__(self, known, folder):
        self.known, self.installed, self.ending = known, {}, {}  # Files by each end of their paths within the folder
        for path in known:
            steps = os.path.relpath(path, folder).split(os.sep)
            for first in range(len(steps)):
                self.ending.setdefault("/".join(steps[first:]), []).append(path)

    def files_of(self, base, parts, places):
        """The files that an import of these parts may read."""
        ends = ["/".join(parts[:n]) + last for n in range(len(parts), 0, -1) for last in (".py", "/__init__.py")]
        if base is not None:
            return self._in([base], ends + ["__init__.py"])
        found = self._in(places.before_installed, ends)
        if found or parts[0] in sys.stdlib_module_names:
            return found
        folders, whole = self._installed(parts[0])
        found = self._in(folders, ends)
        if found or whole:  # An installed module is no file of this folder that happens to have its name
            return found
        # What is put in front of the path is computed, so it may be any folder.
        anywhere = [path for end in ends for path in self.ending.get(end, [])] if places.changed else []
        return self._in(places.after, ends) or anywhere

    def _in(self, folders, ends):
        """Of the first folder that has some of these files, those."""
        for folder in folders:
            found = [path for path in (os.path.join(folder, end) for end in ends) if path in self.known]
            if found:
                return found
        return []

    def _installed(self, name):
        """The folders in which Python finds this module without the file's help, and whether it needs no other."""
        if name not in self.installed:
            try:
                spec = importlib.util.find_spec(name)
            except Exception:  # pylint: disable=broad-except  # Packages may bring finders of their own
                spec = None
            files = list(spec.submodule_search_locations or [spec.origin or ""]) if spec is not None else []
            # A folder without __init__.py has no origin: another one of its name may add to it.
            self.installed[name] = ([os.path.dirname(os.path.abspath(file)) for file in files],
                                    spec is not None and spec.origin is not None)
        return self.installed[name]
