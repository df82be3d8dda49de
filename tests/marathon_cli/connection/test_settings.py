"""Which value of a setting counts, and who gets which credentials."""

from __future__ import annotations

import pytest

from marathon_cli.connection.settings import BY_NAME, KEYS, Settings, key_named, shown
from mesos_gpu.errors import BadInput
from tests.support.golden import Golden

PROFILE = {"marathon-url": "http://profile", "token": "of-profile", "ca": "/profile.pem", "http-timeout": "5"}


def settings(
    options: dict[str, str] | None = None,
    environ: dict[str, str] | None = None,
    profile: dict[str, str] | None = None,
    named: bool = False,
) -> Settings:
    return Settings.of(options or {}, environ or {}, profile or {}, "prod", profile_named=named)


def test_an_option_counts_more_than_a_variable_and_that_more_than_the_profile(golden: Golden) -> None:
    options, environ = {"ca": "/option.pem"}, {"MESOS_GPU_CA": "/variable.pem", "MESOS_GPU_PROXY": "none"}
    found = settings(options, environ, PROFILE)
    assert {name: setting.source for name, setting in found.values.items()} == {
        "marathon-url": golden,
        "token": golden,
        "http-timeout": golden,
        "ca": "--ca",
        "proxy": "MESOS_GPU_PROXY",
    }


def test_a_profile_that_is_named_counts_more_than_variables() -> None:
    environ = {"MARATHON_URL": "http://variable", "MESOS_GPU_CA": "/variable.pem"}
    assert settings({}, environ, PROFILE, named=True).text("marathon-url") == "http://profile"
    assert settings({}, environ, PROFILE, named=True).text("ca") == "/profile.pem"
    assert settings({}, environ, PROFILE).text("marathon-url") == "http://variable"


def test_credentials_stay_with_the_url_they_were_set_beside() -> None:
    elsewhere = settings({"marathon-url": "http://elsewhere"}, {}, {**PROFILE, "mesos-url": "http://master"})
    assert elsewhere.access().authorization is None
    assert elsewhere.master() is None
    assert elsewhere.access().read_s == 5
    both = {"MARATHON_URL": "http://variable", "MESOS_GPU_TOKEN": "of-variable"}
    assert settings({}, both, PROFILE).access().authorization == "token=of-variable"
    alone = {"MESOS_GPU_TOKEN": "for-any"}
    assert settings({"marathon-url": "http://elsewhere"}, alone).access().authorization == "token=for-any"


def test_mesos_gets_marathons_credentials_only_behind_the_same_address() -> None:
    found = settings({"marathon-url": "https://gate/service/marathon,https://second", "token": "t"})
    assert found.mesos_access("https://gate/mesos").authorization == "token=t"
    assert found.mesos_access("https://second:443/").authorization == "token=t"
    for other in ("http://gate/mesos", "https://gate:5050", "https://elsewhere"):
        assert found.mesos_access(other).authorization is None


def test_mesos_can_have_credentials_of_its_own() -> None:
    found = settings({"marathon-url": "http://m", "token": "t", "mesos-user": "op", "mesos-password": "pw", "ca": "/a"})
    access = found.mesos_access("http://anywhere:5051")
    assert (access.user, access.password, access.token, str(access.ca)) == ("op", "pw", None, "/a")


def test_one_url_names_a_whole_dcos_cluster() -> None:
    found = settings({}, {"DCOS_URL": "https://dcos.example.org/", "MESOS_GPU_TOKEN": "t"})
    urls = [setting and setting.value for setting in (found.marathon(), found.master(), found.agents())]
    assert urls == [
        "https://dcos.example.org/service/marathon",
        "https://dcos.example.org/mesos",
        "https://dcos.example.org/agent/{id}",
    ]
    assert found.mesos_access("https://dcos.example.org/agent/S3").authorization == "token=t"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("marathon-url", "ftp://x"),
        ("agent-url", "{id}://x"),
        ("insecure", "perhaps"),
        ("http-timeout", "0"),
        ("http-timeout", "nan"),
        ("proxy", "socks5://x"),
        ("user", ""),
        ("token", "a\nb"),
    ],
)
def test_a_value_that_is_none_is_refused_with_where_it_is_from(name: str, value: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        settings({name: value}).get(name)
    assert f"--{name}" in str(refused.value)


def test_a_password_without_a_user_is_refused(golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        settings({}, {"MESOS_GPU_PASSWORD": "x"}).access()
    assert str(refused.value) == golden


def test_every_key_is_explained_and_has_a_variable_of_its_own() -> None:
    assert len({key.variable for key in KEYS}) == len(KEYS) == len(BY_NAME)
    assert all(key.help.endswith(".") for key in KEYS)


def test_an_unknown_key_is_refused_with_the_nearest(golden: Golden) -> None:
    assert key_named("marathon_url").name == "marathon-url"
    with pytest.raises(BadInput) as refused:
        key_named("marathonurl")
    assert str(refused.value) == golden


def test_nothing_secret_is_shown() -> None:
    assert "x" not in shown("token", "x")
    assert shown("marathon-url", "http://ann:pw@h,http://h2") == "http://ann:********@h,http://h2"
