# SPDX-License-Identifier: Apache-2.0
"""The subset of Python that NKI's language guide allows in a kernel: what works here, where kernels
are traced by running them, but is refused by a compiler that reads their source."""
import ast

_REFUSED = {
    ast.Try: "try and except", ast.With: None, ast.Lambda: None, ast.GeneratorExp:
    "generator expressions", ast.Yield: "yield", ast.YieldFrom: "yield from", ast.Global: "global",
    ast.Nonlocal: "nonlocal", ast.ClassDef: "classes inside a kernel", ast.Await: "await",
    ast.AsyncFor: "async for", ast.AsyncWith: "async with", ast.AsyncFunctionDef: "async functions",
    ast.Delete: "del", ast.Starred: "unpacking with *", ast.Import: "import inside a kernel",
    ast.ImportFrom: "import inside a kernel", ast.Match: "match", ast.SetComp: "set comprehensions",
    ast.Set: "sets", ast.NamedExpr: "assignment expressions (:=)",
}
_CALLS = {"open", "eval", "exec", "input", "compile", "globals", "locals", "setattr", "delattr",
          "__import__"}


def is_kernel(node):
    """Whether a function has the decorator nki.jit, or jit."""
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if name == "jit":
            return True
    return False


def findings(text, file):
    """Sentences about what a compiler of NKI's subset would refuse, each with file and line."""
    found = []
    tree = ast.parse(text, file)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or not is_kernel(function):
            continue
        if function.args.vararg or function.args.kwarg:
            found.append(f"{file}:{function.lineno}: kernel {function.name} takes *args or **kwargs")
        for node in ast.walk(function):
            what = _REFUSED.get(type(node))
            if what:
                found.append(f"{file}:{node.lineno}: {what} in kernel {function.name}")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and (
                    node.func.id in _CALLS):
                found.append(f"{file}:{node.lineno}: {node.func.id}() in kernel {function.name}")
            if isinstance(node, (ast.While, ast.For)) and node.orelse:
                found.append(f"{file}:{node.lineno}: else of a loop in kernel {function.name}")
    return found
