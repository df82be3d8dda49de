"""What can be set about connections, where each value may come from, and which counts. Pure.

An option counts more than an environment variable, that more than the profile in use. A profile that is named by
--profile counts more than variables: who names it means it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from marathon_cli.connection.access import CONNECT_S, NO_PROXY, READ_S, Access, addresses, origin
from mesos_gpu.errors import BadInput

HIDDEN = "********"
YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class Key(NamedTuple):
    """One setting. A secret one is kept in a file of its own and never shown."""

    name: str
    variable: str
    help: str
    check: Callable[[str], object]
    secret: bool = False


def _text(value: str) -> str:
    return value


def _marathon_urls(value: str) -> object:
    return addresses(value, what="Marathon")


def _master_urls(value: str) -> object:
    return addresses(value, what="Mesos master")


def _agent_url(value: str) -> object:
    return addresses(value.replace("{id}", "S0").replace("{host}", "host"), what="Mesos agent")


def _cluster_url(value: str) -> object:
    return addresses(value, what="DC/OS cluster")


def _path(value: str) -> Path:
    return Path(value).expanduser()


def _flag(value: str) -> bool:
    if value.lower() in YES + NO:
        return value.lower() in YES
    raise BadInput(f"{value!r} is neither true nor false")


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86400 * 365:
        raise BadInput(f"{value!r} is not a number of seconds above 0")
    return seconds


def _proxy(value: str) -> str:
    if value == NO_PROXY:
        return value
    if not value.startswith("http://"):
        raise BadInput(f"{value!r} is not the URL of a proxy; one looks like http://proxy:3128 (or `none`)")
    addresses(value, what="proxy")
    return value.rstrip("/")


KEYS = (
    Key(
        "marathon-url",
        "MARATHON_URL",
        "Marathon, or several between commas: the next is asked when one fails.",
        _marathon_urls,
    ),
    Key("mesos-url", "MESOS_URL", "Mesos master, or several; default: the one that Marathon names.", _master_urls),
    Key(
        "agent-url",
        "MESOS_GPU_AGENT_URL",
        "Where agents are reached when not at their own address; {id} and {host} are the agent's.",
        _agent_url,
    ),
    Key(
        "dcos-url",
        "DCOS_URL",
        "A DC/OS cluster: its Marathon, master and agents are behind this one URL.",
        _cluster_url,
    ),
    Key("user", "MESOS_GPU_USER", "User name for HTTP basic authentication.", _text),
    Key("password", "MESOS_GPU_PASSWORD", "Password of the user.", _text, secret=True),
    Key("token", "MESOS_GPU_TOKEN", "Token, sent as `Authorization: token=...`.", _text, secret=True),
    Key("mesos-user", "MESOS_GPU_MESOS_USER", "User name for the Mesos master and agents.", _text),
    Key("mesos-password", "MESOS_GPU_MESOS_PASSWORD", "Password of the mesos-user.", _text, secret=True),
    Key("ca", "MESOS_GPU_CA", "File (PEM) with the certificate authorities to trust.", _path),
    Key("client-cert", "MESOS_GPU_CLIENT_CERT", "File (PEM) with our certificate, for servers that want one.", _path),
    Key("client-key", "MESOS_GPU_CLIENT_KEY", "File (PEM) with its key, when it is not in the same file.", _path),
    Key(
        "insecure", "MESOS_GPU_INSECURE", "Do not check certificates: others may read, and change, what is sent.", _flag
    ),
    Key("proxy", "MESOS_GPU_PROXY", "Proxy for every request; `none` for none, whatever the environment says.", _proxy),
    Key("connect-timeout", "MESOS_GPU_CONNECT_TIMEOUT", f"Seconds to wait for a connection ({CONNECT_S:g}).", _seconds),
    Key("http-timeout", "MESOS_GPU_HTTP_TIMEOUT", f"Seconds to wait for an answer ({READ_S:g}).", _seconds),
)
BY_NAME: Mapping[str, Key] = {key.name: key for key in KEYS}
REMOVED = ("resident",)
"""Keys of earlier versions. Files that have them are still read; the keys have no effect."""


def shown(name: str, value: str) -> str:
    """Return a value as it may be shown: without secrets, those in a URL too."""
    if BY_NAME[name].secret:
        return HIDDEN
    return re.sub(r"(//[^/,@:]*):[^/,@]*@", rf"\1:{HIDDEN}@", value)


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and where it is from, for messages: an option, a variable, or a profile."""

    value: str
    source: str


def key_named(name: str) -> Key:
    """Return the key of a name; `_` for `-` is fine. Raises BadInput, with the nearest name."""
    key = BY_NAME.get(name.replace("_", "-"))
    if key is None:
        near = difflib.get_close_matches(name, BY_NAME, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(BY_NAME)}"
        raise BadInput(f"there is no setting {name}; {hint}")
    return key


def check(key: Key, value: str, source: str) -> None:
    """Raise BadInput, with where the value is from, when it is none for this key."""
    if not value or any(not char.isprintable() for char in value):
        raise BadInput(f"{source}: {key.name} {'is empty' if not value else 'has characters that cannot be printed'}")
    try:
        key.check(value)
    except BadInput as error:
        raise BadInput(f"{source}: {error}") from None


@dataclass(frozen=True, slots=True)
class Settings:
    """Every value that is set, each from the place that counts most. Values are checked when they are used."""

    values: Mapping[str, Setting]

    @classmethod
    def of(
        cls,
        options: Mapping[str, str],
        environ: Mapping[str, str],
        profile: Mapping[str, str],
        profile_name: str,
        *,
        profile_named: bool = False,
    ) -> Settings:
        """Weigh the places against each other. `profile_named`: --profile named it, so it goes before variables."""
        from_options = {name: Setting(value, f"--{name}") for name, value in options.items()}
        from_environ = {
            key.name: Setting(environ[key.variable], key.variable) for key in KEYS if environ.get(key.variable)
        }
        from_profile = {name: Setting(value, f"profile {profile_name}") for name, value in profile.items()}
        middle = [from_environ, from_profile] if profile_named else [from_profile, from_environ]
        found: dict[str, Setting] = {}
        bound: set[str] = set()
        for place in [*middle, from_options]:
            if any(name in place for name in ("marathon-url", "dcos-url")):
                # Credentials stay with the URL they were set beside, and a master of one cluster is none of another's.
                found = {name: setting for name, setting in found.items() if name not in bound}
                bound = bound | set(_OF_A_SERVER) & set(place)
            found.update(place)
        return cls(found)

    def get(self, name: str) -> Setting | None:
        """Return a value and where it is from, checked. Raises BadInput."""
        setting = self.values.get(name)
        if setting is not None:
            check(BY_NAME[name], setting.value, setting.source)
        return setting

    def text(self, name: str) -> str | None:
        """Return a value, None when it is not set. Raises BadInput."""
        setting = self.get(name)
        return None if setting is None else setting.value

    def marathon(self) -> Setting | None:
        """Return Marathon's URL, None when nothing names one."""
        cluster = self._below_cluster("service/marathon")
        return self.get("marathon-url") or cluster

    def master(self) -> Setting | None:
        """Return the master's URL, None when only Marathon knows it."""
        return self.get("mesos-url") or self._below_cluster("mesos")

    def agents(self) -> Setting | None:
        """Return the pattern of agents' URLs, None when they are reached at their own addresses."""
        return self.get("agent-url") or self._below_cluster("agent/{id}")

    def access(self) -> Access:
        """Return how servers are reached, with the credentials for Marathon. Raises BadInput."""
        paths = {
            name: _path(text) if (text := self.text(name)) else None for name in ("ca", "client-cert", "client-key")
        }
        insecure = self.text("insecure")
        connect, read = self.text("connect-timeout"), self.text("http-timeout")
        password = self.text("password")
        if password is not None and self.text("user") is None:
            raise BadInput(f"{self.values['password'].source} has a password and nothing names its user")
        return Access(
            user=self.text("user"),
            password=password,
            token=self.text("token"),
            ca=paths["ca"],
            client_cert=paths["client-cert"],
            client_key=paths["client-key"],
            insecure=insecure is not None and _flag(insecure),
            proxy=self.text("proxy"),
            connect_s=CONNECT_S if connect is None else _seconds(connect),
            read_s=READ_S if read is None else _seconds(read),
        )

    def mesos_access(self, url: str) -> Access:
        """Return how a master or an agent at `url` is reached.

        It gets the mesos-user's credentials; without one, Marathon's when it is at the same scheme, host and port, as
        behind one gateway. A server elsewhere gets none.
        """
        access = self.access()
        user = self.text("mesos-user")
        if user is not None:
            return replace(access, user=user, password=self.text("mesos-password"), token=None)
        marathon = self.marathon()
        if marathon is not None:
            for one in addresses(marathon.value, what="Marathon"):
                if one.origin == origin(url):
                    return one.access(access)
        return access.anonymous()

    def _below_cluster(self, path: str) -> Setting | None:
        cluster = self.get("dcos-url")
        return None if cluster is None else Setting(f"{cluster.value.rstrip('/')}/{path}", cluster.source)


_OF_A_SERVER = (
    "marathon-url",
    "mesos-url",
    "agent-url",
    "dcos-url",
    "user",
    "password",
    "token",
    "mesos-user",
    "mesos-password",
)
