"""Parse the names that users type, and load the objects that they refer to.

A name is registered, such as `dextr`, or it is a reference to an object of the user:
`./file.py:name` or `package.module:name`. Both can have options: `dextr(variant=published)`.
Loading an object of the user runs the user's code.
"""

import ast
import importlib
import re
import sys
import traceback
from collections.abc import Mapping
from hashlib import sha256
from inspect import isclass, isfunction
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from untrained.errors import UsageError, make_unknown_name_error
from untrained.pairs import find_options, split_pairs
from untrained.quantities import show_value
from untrained.user_code import (
    UserCode,
    find_user_code,
    import_user_file,
    is_path,
    is_trusted,
    prepare_imports,
    trust_user_code,
)

T = TypeVar("T")
MAX_NAME_LENGTH = 5_000  # characters, with the options


# ---------------------------------------------------------------------------- parsing of names


def parse_call(text: str) -> tuple[str, dict[str, object]]:
    """Split a name from its options.

    Args:
        text: A name such as `dextr(variant=published)`.

    Returns:
        The name and the options: `dextr` and `{"variant": "published"}`.

    Raises:
        UsageError: The text is not a name, or the options cannot be parsed.
    """
    if not isinstance(text, str):
        raise UsageError(
            f"{show_value(text)} is not a name; "
            "give one as text, such as 'dextr(variant=published)'"
        )
    if len(text) > MAX_NAME_LENGTH:
        raise UsageError(
            f"a name of {len(text):,} characters is too long: {show_value(text)}; "
            "shorten its options"
        )
    name = text.strip()
    if not name:
        raise UsageError("a name is missing; `untrained list` shows the available names")
    start = find_options(name)
    base = name[:start].rstrip()
    arguments = name[start + 1 : -1]
    options = {}
    for argument in split_names(arguments):
        key, equals, value = argument.partition("=")
        if not equals:
            raise UsageError(
                f"{text!r}: write options as name=value, such as dextr(variant=published)"
            )
        options[key.strip()] = _parse_literal(value.strip())
    return base, options


def split_names(text: str) -> list[str]:
    """Split a list of names at its commas, except inside brackets and quotes.

    Args:
        text: Names such as `a,b(c=1,d=2)`.

    Returns:
        The names: `a` and `b(c=1,d=2)`.
    """
    if not isinstance(text, str):
        raise UsageError(
            f"{show_value(text)} is not a list of names; give them as text, such as 'params,naswot'"
        )
    parts = [part.strip() for _, part in split_pairs(text)]
    return [part for part in parts if part]


def is_reference(name: str) -> bool:
    """Return whether a name refers to an object in a file or module, not to a registered one."""
    if ":" not in name:
        return False
    # Only architectures of NAS-Bench-201 start with a bar: |none~0|+|none~0|none~1|+...
    if name.startswith("|"):
        return False
    # 8:16:24:32:64 is an architecture of the size space of NATS-Bench.
    return not re.fullmatch(r"[\d:]+", name)


def make_absolute(name: str) -> str:
    """Make the path in a reference absolute, for a process with another working directory."""
    start = find_options(name)
    base = name[:start]
    location, colon, attribute = base.rpartition(":")
    if is_reference(base) and is_path(location):
        return f"{Path(location).resolve()}{colon}{attribute}{name[start:]}"
    return name


def _parse_literal(text: str) -> object:
    """Return the Python value of a literal, or the text itself if it is not a literal."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        # The last two are raised for deeply nested text.
        return text


# ---------------------------------------------------------------------------- loading of objects


def load_member(
    name: str, registry: Mapping[str, T], kind: type[T], what: str, decorator: str
) -> tuple[T, dict[str, object]]:
    """Load a registered member, or an object from a file of the user.

    Args:
        name: Its name or a reference to it, optionally with options in brackets.
        registry: The registered members.
        kind: Class of the members.
        what: What a member is, such as "proxy", for messages.
        decorator: Decorator that makes such an object, for messages.

    Returns:
        The member and the options in the brackets.

    Raises:
        UsageError: There is no such member, or the object is not an instance of `kind`.
    """
    if not isinstance(name, str):
        example = next(iter(registry))
        raise UsageError(f"{show_value(name)} is not a {what}; give its name, such as {example!r}")
    base, options = parse_call(name)
    if base.endswith(".py"):
        raise make_incomplete_reference_error(base, f"the {what}")
    member: object
    if is_reference(base):
        member = load_object(base)
    else:
        member = registry[base]
    if not isinstance(member, kind):
        raise UsageError(f"{base} is not a {what}; put {decorator} above the function")
    return member, options


def load_object(reference: str) -> object:
    """Import the object that a reference such as `./mine.py:mynet` names.

    Raises:
        UsageError: There is no such file, module or object, or the user's code raised an exception.
    """
    location, _, attribute = reference.rpartition(":")
    if not location or not attribute:
        raise make_incomplete_reference_error(reference, "the object")
    if is_path(location):
        module = _import_file(Path(location))
    else:
        module = _import_module(location)
    if not hasattr(module, attribute):
        names: list[str] = list(_find_own_objects(module))
        if not names:
            names = [name for name in vars(module) if not name.startswith("_")]
        raise make_unknown_name_error(f"object in {location}", attribute, names)
    return getattr(module, attribute)


def load_public_objects(path: Path) -> dict[str, object]:
    """Import a file of the user; return the public objects that it defines, by name, in order."""
    return _find_own_objects(_import_file(path))


def make_incomplete_reference_error(name: str, what: str) -> UsageError:
    """Make the error for a reference that names a file but no object in it."""
    example = f"{name.rstrip(':') or './my_net.py'}:NAME"
    return UsageError(f"{name!r} is incomplete; name {what} in it: {example}")


def make_path_error(text: str) -> UsageError | None:
    """Make the error for a text that is a path, where an architecture is expected.

    Returns:
        The error; None if the text does not look like a path.
    """
    if text.endswith(".py"):
        return UsageError(
            f"{text} is a file; name a factory in it, {text}:make_net, "
            "or add --rank for all of them"
        )
    # Cells of NAS-Bench-101 contain a slash as well: 0101010/0010100+input,conv1x1
    if "/" not in text or set(text) & set("=|(,"):
        return None
    if Path(text).exists():
        problem = "is a path, not an architecture"
    else:
        problem = "is neither a run folder nor an architecture"
    return UsageError(f"{text} {problem}; give an architecture, or ./my_net.py:make_net")


def _find_own_objects(module: ModuleType) -> dict[str, object]:
    """Return the public objects that a module defines itself, without those that it imports."""
    path = getattr(module, "__file__", None) or ""
    source = Path(path).read_bytes() if path.endswith(".py") else b""
    imported_names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                imported_name = alias.asname or alias.name
                imported_names.add(imported_name.partition(".")[0])

    own_objects = {}
    for name, value in vars(module).items():
        if name.startswith("_") or name in imported_names:
            continue
        # `from x import *` does not list the names that it imports.
        if (isfunction(value) or isclass(value)) and value.__module__ != module.__name__:
            continue
        own_objects[name] = value
    return own_objects


def _import_file(path: Path) -> ModuleType:
    location = str(path)
    if not is_path(location):
        location = f"./{location}"
    code = find_user_code(location)
    if code is None:
        raise UsageError(
            f"there is no file {path}; "
            "give the path as you would to python, such as ./my_net.py:make_net"
        )
    trust_user_code(code)
    try:
        return import_user_file(code)
    except (Exception, SystemExit) as error:
        raise make_user_code_error(str(path), "while it was loaded", error) from error


def _import_module(name: str) -> ModuleType:
    # Unlike `python`, an installed command does not look for modules in the working directory.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    code = find_user_code(name)
    if code is not None:
        trust_user_code(code)
        prepare_imports(code)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The module itself is missing, or the user's code imports something that is missing.
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            path = name.replace(".", "/")
            raise UsageError(
                f"there is no module {name} to import; if you mean a file, type ./{path}.py:NAME"
            ) from error
        raise make_user_code_error(name, "while it was imported", error) from error
    except (Exception, SystemExit) as error:
        raise make_user_code_error(name, "while it was imported", error) from error


# ---------------------------------------------------------------------------- code of the user


class UserCodeError(UsageError):
    """The user's own code raised an exception; the message has the user's part of the traceback."""


def make_user_code_error(name: str, when: str, error: BaseException) -> UserCodeError:
    """Make the error for an exception in the user's own code.

    Args:
        name: The file, module or function of the user.
        when: When it failed, such as "while it was loaded".
        error: The exception that it raised.
    """
    if isinstance(error, SystemExit):
        advice = "put code that only a script needs under `if __name__ == '__main__':`"
        return UserCodeError(f"{name} called sys.exit({error.code!r}) {when}; {advice}")
    return UserCodeError(f"{name} raised an error {when}\n{format_user_traceback(error)}")


def format_user_traceback(error: BaseException) -> str:
    """Format a traceback without the frames of this package and of the import machinery."""
    package = str(Path(__file__).parent)
    user_frames = []
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith(package) and "importlib" not in frame.filename:
            user_frames.append(frame)
    lines = traceback.format_list(user_frames) + traceback.format_exception_only(error)
    return "".join(lines).rstrip()


def find_code_of_name(name: str) -> UserCode | None:
    """Find the user's files that a name such as `./mine.py:mynet(depth=2)` refers to.

    Returns:
        The files; None for a registered name.
    """
    base, _ = parse_call(name)
    if not is_reference(base):
        return None
    return find_user_code(base.rpartition(":")[0])


def fingerprint_user_code(*names: str) -> str:
    """Return one fingerprint of all the user's code that names refer to; empty if there is none."""
    fingerprints: list[str] = []
    for name in names:
        code = find_code_of_name(name)
        if code is not None and code.fingerprint not in fingerprints:
            fingerprints.append(code.fingerprint)
    if len(fingerprints) < 2:
        return "".join(fingerprints)
    return sha256("\n".join(fingerprints).encode()).hexdigest()


def require_trusted_code(name: str, fingerprint: str | None, origin: str, command: str) -> None:
    """Refuse to run code that a file refers to, unless the user has run it before.

    Args:
        name: Name in the file, such as `./mine.py:mynet`. Registered names are always allowed.
        fingerprint: Fingerprint of the code when the file was written; None if the file does not
            contain it.
        origin: The file or folder that contains the name, for the message.
        command: What to type to run the code nevertheless, for the message.

    Raises:
        UsageError: The code is missing, has changed, or was never run by the user.
    """
    base, _ = parse_call(name)
    if not is_reference(base):
        return
    code = find_code_of_name(name)
    if code is None:
        if base.startswith("untrained."):  # a module of this package
            return
        raise UsageError(
            f"{origin} needs {base}, which was not found; give its location: {command}"
        )
    if fingerprint is not None and fingerprint != code.fingerprint:
        raise UsageError(
            f"{base} has changed since {origin} was made; to use it as it is now: {command}"
        )
    if not is_trusted(code):
        raise UsageError(
            f"{origin} refers to {base}, which you have not run on this machine; "
            f"read it, then type: {command}"
        )
