"""The user's profiles on disk: `config` for all to see, `secrets` for their owner alone."""

from __future__ import annotations

import difflib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from marathon_cli.connection.settings import BY_NAME, REMOVED, check, key_named
from mesos_gpu.base.files import write_whole
from mesos_gpu.errors import BadInput, NotFound, Unavailable

USE = "use"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SECTION = re.compile(r"\[\s*(.*?)\s*\]\s*(?:[#;].*)?")


class _Line(NamedTuple):
    number: int
    section: str | None
    key: str | None
    value: str


class Profiles(NamedTuple):
    """What a file says: the profile in use, and the settings of each."""

    use: str | None
    profiles: Mapping[str, Mapping[str, str]]


def parse(text: str, where: str) -> Profiles:
    """Read a file. Raises BadInput with every line that is wrong; `where` names the file."""
    problems: list[str] = []
    use: str | None = None
    profiles: dict[str, dict[str, str]] = {}
    for line in _lines(text, problems):
        try:
            if line.section is None:
                if line.key != USE:
                    raise BadInput(f"before the first [profile] there may be only `{USE} = PROFILE`")
                use = line.value
                continue
            settings = profiles.setdefault(line.section, {})
            if line.key is None or line.key in REMOVED:
                continue
            key = key_named(line.key)
            if key.name in settings:
                raise BadInput(f"{key.name} is set twice in [{line.section}]")
            check(key, line.value, key.name)
            settings[key.name] = line.value
        except BadInput as error:
            problems.append(f"line {line.number}: {error}")
    if problems:
        raise BadInput("\n  ".join([f"{where} cannot be used:", *problems]))
    return Profiles(use, profiles)


def check_name(name: str) -> str:
    """Return the name of a profile, if it is one. Raises BadInput."""
    if not NAME.fullmatch(name):
        raise BadInput(f"{name!r} is not a name of a profile: write letters, digits and . _ -, no sign first")
    return name


def with_value(text: str, section: str | None, key: str, value: str | None) -> str:
    """Return the text with a value set (None: taken out) in a section; None is what stands before the first."""
    lines = text.splitlines()
    known = [line for line in _lines(text, []) if line.section == section]
    at = next((line.number - 1 for line in known if line.key is not None and _same(line.key, key)), None)
    if value is None:
        if at is not None:
            del lines[at]
    elif at is not None:
        lines[at] = f"{key} = {value}"
    elif section is None:
        lines.insert(0, f"{key} = {value}")
    elif known:
        lines.insert(max(line.number for line in known), f"{key} = {value}")
    else:
        lines += [*([""] if lines else []), f"[{section}]", f"{key} = {value}"]
    return "\n".join(lines) + "\n" if lines else ""


def without(text: str, section: str) -> str:
    """Return the text without a section and all that is in it."""
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        found = _SECTION.fullmatch(line.strip())
        inside = found.group(1) == section if found else inside
        if not inside:
            kept.append(line)
    return "\n".join(kept).rstrip("\n") + "\n" if any(line.strip() for line in kept) else ""


def _lines(text: str, problems: list[str]) -> Iterator[_Line]:
    section: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare[0] in "#;":
            continue
        headline = _SECTION.fullmatch(bare)
        if headline:
            section = headline.group(1)
            if NAME.fullmatch(section):
                yield _Line(number, section, None, "")
            else:
                problems.append(f"line {number}: [{section}] is not a name of a profile")
            continue
        key, equals, value = bare.partition("=")
        if not equals:
            problems.append(f"line {number}: {bare[:40]!r} is neither [profile] nor key = value")
            continue
        yield _Line(number, section, key.strip(), _unquoted(value.strip()))


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"" else value


def _same(one: str, other: str) -> bool:
    return one.replace("_", "-") == other.replace("_", "-")


SECRET_MODE = 0o600
DEFAULT = "default"


class ProfileStore:
    """The files of one user. Nothing is read before it is needed; a file that is not there says nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config, self.secrets = folder / "config", folder / "secrets"

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> ProfileStore:
        """Return the store of an environment: MESOS_GPU_CONFIG_DIR, else below XDG_CONFIG_HOME, else ~/.config."""
        named = environ.get("MESOS_GPU_CONFIG_DIR")
        if named:
            return cls(Path(named))
        base = environ.get("XDG_CONFIG_HOME", "")
        # A relative path there is to be ignored, says the XDG base directory specification.
        return cls((Path(base) if base.startswith("/") else Path.home() / ".config") / "mesos-gpu")

    def read(self) -> Profiles:
        """Return all profiles, with their secrets. Raises BadInput for a broken file, Unavailable for a closed one."""
        known = parse(self._text(self.config), str(self.config))
        hidden = parse(self._text(self.secrets, secret=True), str(self.secrets))
        merged = {name: dict(settings) for name, settings in known.profiles.items()}
        for name, settings in known.profiles.items():
            for key in settings:
                if BY_NAME[key].secret:
                    raise BadInput(
                        f"{self.config}: {key} of [{name}] is a secret and belongs in {self.secrets}; take the "
                        f"line out and run `mesos-gpu config set {key} --profile {name}`"
                    )
        for name, settings in hidden.profiles.items():
            merged.setdefault(name, {}).update(settings)
        return Profiles(known.use, merged)

    def profile(self, name: str) -> Mapping[str, str]:
        """Return the settings of a profile. Raises NotFound, with the nearest name."""
        found = self.read().profiles
        if name not in found:
            near = difflib.get_close_matches(name, found, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(found) or 'none yet'}"
            raise NotFound(f"there is no profile {name} in {self.config}; {hint}")
        return found[name]

    def set(self, name: str, key: str, value: str) -> None:
        """Set a value in a profile, which is made if it is not there. Raises BadInput."""
        known = key_named(key)
        check(known, value, known.name)
        if value != value.strip() or value[:1] in ("'", '"'):
            raise BadInput(f"{known.name}: a value neither begins nor ends with space, nor begins with a quote")
        if not known.secret and "@" in value.partition("//")[2].partition("/")[0]:
            how = (
                f"{known.variable} may have them"
                if known.name == "proxy"
                else "user and password are keys of their own"
            )
            raise BadInput(f"{known.name}: no name and password in a URL that others may read; {how}")
        self.read()
        path = self.secrets if known.secret else self.config
        text = with_value(self._text(path), check_name(name), known.name, value)
        self._write(path, text)

    def unset(self, name: str, key: str | None) -> None:
        """Take a value out of a profile, or the whole profile. Raises NotFound, BadInput."""
        settings, use = self.profile(name), self.read().use
        if key is None:
            for path in (self.config, self.secrets):
                if path.exists():
                    self._write(path, without(self._text(path), name))
            if use == name:
                self._write(self.config, with_value(self._text(self.config), None, USE, None))
            return
        known = key_named(key)
        if known.name not in settings:
            raise NotFound(f"{known.name} is not set in profile {name}")
        path = self.secrets if known.secret else self.config
        self._write(path, with_value(self._text(path), name, known.name, None))

    def use(self, name: str | None) -> None:
        """Make a profile the one in use; None: none. Raises NotFound."""
        if name is not None:
            self.profile(name)
        self._write(self.config, with_value(self._text(self.config), None, USE, name))

    def _text(self, path: Path, *, secret: bool = False) -> str:
        try:
            if secret and path.exists():
                _check_closed(path)
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""
        except NotADirectoryError:
            raise Unavailable(f"{path} cannot be read: {path.parent} is not a folder") from None
        except UnicodeDecodeError:
            raise BadInput(f"{path} cannot be used: it is not text in UTF-8") from None
        except OSError as error:
            raise Unavailable(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None

    def _write(self, path: Path, text: str) -> None:
        """Replace a file, so that a crash leaves the old one or the new one. A file without secrets keeps its mode."""
        target = path.resolve()  # a link into somebody's dotfiles stays one
        try:
            if path == self.secrets:
                write_whole(target, text.encode(), mode=SECRET_MODE, folder_mode=0o700)
            else:
                write_whole(target, text.encode(), mode=None, folder_mode=0o700)
        except OSError as error:
            raise Unavailable(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None


def _check_closed(path: Path) -> None:
    """Raise BadInput when others than the owner may read a file of secrets."""
    status = path.stat()
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise BadInput(f"{path} holds secrets and others may read it; `chmod 600 {path}` closes it")
    if status.st_uid not in (os.geteuid(), 0):
        raise BadInput(f"{path} holds secrets and belongs to somebody else")
