from __future__ import annotations

import base64
import json

import pytest

from mesos_gpu.errors import BadFlag
from mesos_gpu.images.credentials import Credentials, DockerConfig, parse_challenges


def test_challenges_are_read_whatever_their_order() -> None:
    header = 'Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push"'
    wanted = {
        "realm": "https://auth.docker.io/token",
        "service": "registry.docker.io",
        "scope": "repository:a/b:pull,push",
    }
    assert parse_challenges(header) == {"bearer": wanted}
    assert parse_challenges(f'Basic realm="x", {header}') == {"basic": {"realm": "x"}, "bearer": wanted}
    assert parse_challenges(r'basic Realm = "a \"b\""') == {"basic": {"realm": 'a "b"'}}
    assert parse_challenges("") == {}
    assert parse_challenges("Negotiate") == {"negotiate": {}}


def test_credentials_are_found_by_host_however_docker_wrote_it() -> None:
    login = base64.b64encode(b"me:p:w").decode()
    config = DockerConfig.parse(
        json.dumps(
            {
                "auths": {
                    "https://index.docker.io/v1/": {"auth": login},
                    "nvcr.io": {"username": "$oauthtoken", "password": "k"},
                    "127.0.0.1:5000": {"identitytoken": "t"},
                },
                "credsStore": "desktop",
            }
        )
    )
    assert config.at("docker.io") == config.at("registry-1.docker.io") == Credentials("me", "p:w")
    assert config.at("NVCR.io") == Credentials("$oauthtoken", "k")
    assert config.at("127.0.0.1:5000").identity_token == "t"
    assert config.at("quay.io") == Credentials()
    assert config.at("quay.io").basic is None


def test_passwords_are_not_shown() -> None:
    assert "hidden" not in repr(Credentials("me", "hidden", "hidden too"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"auths": []}',
        '{"auths": {"a": 1}}',
        '{"auths": {"a": {"auth": "hidden"}}}',
        '{"auths": {"a": {"auth": 1}}}',
    ],
)
def test_bad_configs_are_refused_without_showing_secrets(text: str) -> None:
    with pytest.raises(BadFlag, match="docker_config") as caught:
        DockerConfig.parse(text)
    assert "hidden" not in str(caught.value)
