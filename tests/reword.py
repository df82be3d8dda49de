"""Lists the tests that depend on how messages are worded: `.venv/bin/python -m tests.reword [ARGUMENTS OF PYTEST]`.

It copies the tree to a temporary folder, changes every word of prose in the strings of the product there, rewrites the
golden files, and runs the tests. A test that passes here and fails in the copy asserts words that are not in a golden
file. REWORD_COPY=FOLDER keeps the copy.
"""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path

from marathon_cli.registry import ROWS

PACKAGES = ("mesos_gpu", "marathon_cli")
KEPT: tuple[str, ...] = (
    "marathon_cli/aliases/",
    *("mesos_gpu/doors/nvidia_docker/inventory.py", "mesos_gpu/doors/nvidia_docker/rest.py"),
    *("mesos_gpu/doors/nvidia_docker/volumes.py", "mesos_gpu/kubelet/messages.py"),
    "mesos_gpu/container/spec/seccomp_default.py",
    # Texts of upstream Mesos, which clients and recorded sessions compare, and of OpenSSL (tls_words).
    *(f"mesos_gpu/mesos/{name}.py" for name in ("ids", "leniency", "resource_rules", "security/tls_words")),
    *(f"mesos_gpu/process/{name}.py" for name in ("files", "files_api", "http", "logging_level", "requests")),
    *(f"mesos_gpu/master/allocation/{name}.py" for name in ("allocator_feed", "constraints")),
    *(f"mesos_gpu/master/api/{name}.py" for name in ("cluster_api", "operator_operations", "scheduler_api")),
    *(f"mesos_gpu/master/decisions/{name}.py" for name in ("draining", "driver_subscriptions", "launching")),
    *(f"mesos_gpu/master/decisions/{name}.py" for name in ("maintenance", "operations", "permissions", "roles")),
    *("mesos_gpu/master/decisions/subscriptions.py", "mesos_gpu/master/decisions/updates.py"),
    *("mesos_gpu/master/api/operator_api.py", "mesos_gpu/master/model/quota.py"),
    *("mesos_gpu/master/validation/", "mesos_gpu/master/views/framework_metrics.py"),
    "mesos_gpu/mesos/shares/suspending.py",
)
"""Files and folders whose strings others read."""
KEYS = {
    # The names of doctor's checks, in its JSON.
    *("device nodes", "container networks", "user namespaces", "passed through"),
    *(row.path for row in ROWS),
    *("fixes of the runtime", "fixes of the kernel", "agent {}"),
    # An HTTP header, /etc/hosts, /etc/resolv.conf and .netrc.
    *("attachment; filename={}", "127.0.0.1 localhost\n", "domain {}", "nameserver {}"),
    # Texts of upstream Mesos in modules that have others as well.
    *("Failed to construct regex from pattern '{}': {}", "Missing required fields: {}", "Not a valid UUID"),
    *("{} does not contain {}", "Persistent volume {} cannot be removed due to additional shared copies"),
    *("Invalid 'gpus' resource: The 'gpus' resource must be an unsigned integer", "Resource '{}' is invalid: {}"),
    "The 'gpus' resource must be an unsigned integer",
    *("Only persistent volumes can be shared", "Resource {} cannot be shared", "Resource {} is not reserved"),
    *("Registering with 'id' already set", "Re-registering without an 'id'", "Agent {} is unreachable: {}"),
    *("agent did not re-register within {} after disconnecting", "health check timed out"),
    "machine 127.0.0.1 login {} password {}\n",
    *("Command returned {}", "Unexpected HTTP response code: {}", "Requested {} {} but only {} available"),
    *('"{}" authenticator returned:\n{}', "Object is not valid"),
    # What Mesos' master and Marathon's API send, and command lines.
    *("Framework has been removed", "Framework failed over", "Completed framework attempted to re-register"),
    *("Object is not valid", "Invalid JSON", "chmod ug+rx {} && exec {} {}", "Reconciliation: Latest task state"),
}
"""Strings of several words that programs compare."""
SUFFIX = "qz"

_PROSE = re.compile(r"(?:\b[a-z]{2,}[,;:]? |\} )[a-z]{3,}\b|\b[a-z]{4,} \{|[a-z]{4,} [A-Z]")
_CODE = re.compile(
    r"\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|BEGIN|ALTER|DROP|import sys;|sys\.path|#!|/\*|#include|\(\?)"
    r"|.*(?:&& |\bexec |\bchmod )"
)
_WORD = r"(?<![\w\-./='\"`{}<>%@$&\\:])[a-z]{4,}(?=[\s,;)…]|[.:?!](?:\s|\{|$)|$)"
_COMMAND = r"`[^`]*`"
_BRACES = _COMMAND + r"""|\{(?:[^{}'"]|'[^']*'|"[^"]*"|\{[^{}]*\})*\}"""
_COMPARING = {
    *("startswith", "endswith", "partition", "rpartition", "split", "removeprefix", "removesuffix", "index", "find"),
    *("count", "replace", "compile", "match", "fullmatch", "search", "sub", "strptime", "strftime", "get", "getenv"),
    *("run", "Popen"),
}
"""Functions whose arguments are what others write."""


def reworded(source: str) -> str:
    """Return the source of a module with other words in its messages."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def offset(line: int, column_of_utf8: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column_of_utf8].decode())

    messages = [
        range(offset(node.lineno, node.col_offset), offset(node.end_lineno or 0, node.end_col_offset or 0))
        for node, around in strings(ast.parse(source))
        if is_message(node, around)
    ]
    pieces, last = [], 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        begin, end = starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1]
        if token.type in _TEXTS and any(begin in message for message in messages):
            pieces += [source[last:begin], changed(token.string, token.type == tokenize.STRING)]
            last = end
    return "".join([*pieces, source[last:]])


_TEXTS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
"""Before Python 3.12 an f-string is one token."""


def strings(tree: ast.AST) -> Iterator[tuple[ast.Constant | ast.JoinedStr, list[ast.AST]]]:
    """Yield each string of a module that is no part of another, with the nodes around it, outermost first."""
    stack: list[tuple[ast.AST, list[ast.AST]]] = [(tree, [])]
    while stack:
        node, around = stack.pop()
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            yield node, around
        else:
            stack += [(child, [*around, node]) for child in ast.iter_child_nodes(node)]


def is_message(node: ast.Constant | ast.JoinedStr, around: list[ast.AST]) -> bool:
    """Whether a string is for people: two words in a row, and not compared with anything."""
    parent = around[-1]
    if isinstance(parent, (ast.Subscript, ast.Compare)):
        return False
    if isinstance(parent, ast.Dict) and node in parent.keys:
        value = parent.values[parent.keys.index(node)]
        if not isinstance(value, ast.Constant) or str(value.value).isascii():
            return False  # else the message that a translation is of
    if isinstance(parent, ast.Call) and node in parent.args:
        name = parent.func.attr if isinstance(parent.func, ast.Attribute) else getattr(parent.func, "id", "")
        if name in _COMPARING:
            return False
    values = node.values if isinstance(node, ast.JoinedStr) else [node]
    text = "".join(str(value.value) if isinstance(value, ast.Constant) else "{}" for value in values)
    return bool(_PROSE.search(text)) and not _CODE.match(text) and text not in KEYS


def changed(token: str, quoted: bool) -> str:
    """Return a token of a string with a suffix at each word that is not in braces, quotes, paths or names."""
    if not quoted:
        return re.sub(rf"{_COMMAND}|{_WORD}", _with_suffix, token)
    found = re.fullmatch(r"([a-zA-Z]*)('''|\"\"\"|'|\")(.*)(\2)", token, re.S)
    assert found is not None
    prefix, quote, body, _ = found.groups()
    if set(prefix.lower()) & {"b", "r"}:
        return token
    left = _BRACES if "f" in prefix.lower() else _COMMAND
    return prefix + quote + re.sub(rf"{left}|{_WORD}", _with_suffix, body) + quote


def _with_suffix(found: re.Match[str]) -> str:
    return found[0] + SUFFIX if found[0].isalpha() else found[0]


def copy_tree(root: Path, to: Path) -> None:
    """Copy what git knows or does not ignore."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if (root / name).exists():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, to / name, follow_symlinks=False)


def main(argv: list[str]) -> int:
    """Print the tests that fail in the copy; 1 if there are any."""
    with tempfile.TemporaryDirectory(prefix="reword") as temporary:
        to = Path(os.environ.get("REWORD_COPY", temporary))
        shutil.rmtree(to, ignore_errors=True)
        copy_tree(Path.cwd(), to)
        for path in (path for package in PACKAGES for path in (to / package).rglob("*.py")):
            if not str(path.relative_to(to)).startswith(KEPT or "-"):
                path.write_text(reworded(path.read_text()))
        environment = {**os.environ, "PYTHONPATH": str(to), "PYTHONPYCACHEPREFIX": str(to / ".pycache")}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", *argv]
        for more, log in (["--rewrite-golden"], "rewrite.log"), ([], "test.log"):
            with (to / log).open("w") as file:
                done = subprocess.run([*command, *more], cwd=to, env=environment, stdout=file, stderr=file, check=False)
        lines = (to / "test.log").read_text().splitlines()
        failed = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
        print("\n".join([*failed, *lines[-1:]]))
        return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
