"""How servers are reached: TLS, credentials, proxies, several of them, redirects. Against live servers of our own."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from marathon_cli.connection.access import Access, addresses, proxy_for
from marathon_cli.connection.http import HttpClient
from mesos_gpu.errors import BadInput, Unavailable
from tests.support.golden import Golden
from tests.support.marathon_cli.proxy import proxy
from tests.support.marathon_cli.scripted_server import Answer, Request, Run, ScriptedServer, scripted_server
from tests.support.ports import free_port
from tests.support.tls import Authority

Apps = Callable[[ScriptedServer], None]


def listing(server: ScriptedServer) -> ScriptedServer:
    """Let a server answer `app list`."""
    server.on("GET", "/v2/apps", {"apps": []})
    server.on("GET", "/v2/deployments", Answer(200, []))
    server.on("GET", "/v2/info", {"marathon_config": {"mesos_leader_ui_url": server.url}})
    return server


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def secure(authority: Authority) -> Iterator[ScriptedServer]:
    with scripted_server(authority.server_context(*authority.issue("server"))) as server:
        yield listing(server)


def test_a_named_authority_is_trusted(secure: ScriptedServer, authority: Authority, run: Run) -> None:
    result = run("app", "list", "-q", "--marathon-url", secure.url, "--ca", str(authority.certificate))
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_certificate_of_nobody_we_trust_is_refused_with_what_to_do(
    secure: ScriptedServer, run: Run, golden: Golden
) -> None:
    result = run("app", "list", "--marathon-url", secure.url)
    assert result.exit_code == 1
    assert result.stderr == golden
    assert secure.requests == []


def test_another_authority_is_not_enough(secure: ScriptedServer, run: Run, tmp_path: Path, golden: Golden) -> None:
    other = Authority(tmp_path / "other")
    result = run("app", "list", "--marathon-url", secure.url, "--ca", str(other.certificate))
    assert (result.exit_code, result.stderr) == (1, golden)


@pytest.mark.parametrize(("expired", "kind"), [(True, "server"), (False, "elsewhere")])
def test_a_certificate_that_is_old_or_for_another_is_refused(
    authority: Authority, run: Run, expired: bool, kind: str, golden: Golden
) -> None:
    context = authority.server_context(*authority.issue(f"bad-{kind}", kind=kind, expired=expired))
    with scripted_server(context) as server:
        result = run("app", "list", "--marathon-url", server.url, "--ca", str(authority.certificate))
        assert (result.exit_code, server.requests) == (1, [])
        assert result.stderr == golden


def test_insecure_is_done_and_said(secure: ScriptedServer, run: Run, golden: Golden) -> None:
    result = run("app", "list", "-q", "--marathon-url", secure.url, "--insecure")
    assert result.exit_code == 0
    assert result.stderr == golden


def test_a_server_that_wants_a_client_certificate_gets_it(authority: Authority, run: Run) -> None:
    context = authority.server_context(*authority.issue("strict"), wants_client=True)
    certificate, key = authority.issue("client", kind="client")
    with scripted_server(context) as server:
        listing(server)
        words = ("app", "list", "-q", "--marathon-url", server.url, "--ca", str(authority.certificate))
        without = run(*words)
        assert without.exit_code == 1
        assert run(*words, "--client-cert", str(certificate), "--client-key", str(key)).exit_code == 0
        both = certificate.with_suffix(".both")
        both.write_bytes(certificate.read_bytes() + key.read_bytes())
        assert run(*words, "--client-cert", str(both)).exit_code == 0


def test_a_client_certificate_of_a_stranger_is_refused_in_plain_words(
    authority: Authority, run: Run, tmp_path: Path
) -> None:
    context = authority.server_context(*authority.issue("strict"), wants_client=True)
    certificate, key = Authority(tmp_path / "stranger").issue("client", kind="client")
    with scripted_server(context) as server:
        words = ("--marathon-url", server.url, "--ca", str(authority.certificate))
        result = run("app", "list", *words, "--client-cert", str(certificate), "--client-key", str(key))
        assert result.exit_code == 1
        assert result.stderr.startswith("mesos-gpu: ")  # the client is told of it as it writes or as it reads
        assert server.requests == []


@pytest.mark.parametrize(
    ("option", "content"),
    [
        ("--ca", None),
        ("--ca", "nonsense"),
        ("--ca", "-----BEGIN PRIVATE KEY-----"),
        ("--client-cert", "nonsense"),
        ("--client-cert", "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"),
    ],
)
def test_a_file_that_is_no_certificate_is_said(
    secure: ScriptedServer, run: Run, tmp_path: Path, option: str, content: str | None, golden: Golden
) -> None:
    path = tmp_path / "file.pem"
    if content is not None:
        path.write_text(content)
    result = run("app", "list", "--marathon-url", secure.url, option, str(path))
    assert result.exit_code == 1
    assert result.stderr == golden
    assert str(path) in result.stderr


def test_tls_spoken_to_a_plain_port_is_said(server: ScriptedServer, run: Run, golden: Golden) -> None:
    result = run("app", "list", "--marathon-url", server.url.replace("http:", "https:"))
    assert result.stderr == golden


def login(request: Request) -> str | None:
    return request.headers.get("Authorization")


def basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


@pytest.mark.parametrize(
    ("words", "header"),
    [
        (("--auth", "ann:pä:ss"), basic("ann:pä:ss")),
        (("--token", "abc"), "token=abc"),
        ((), None),
    ],
)
def test_credentials_are_sent(marathon: ScriptedServer, run: Run, words: tuple[str, ...], header: str | None) -> None:
    assert run("app", "list", "-q", *words).exit_code == 0
    assert [login(request) for request in marathon.requests] == [header]


def test_credentials_of_a_url_count_and_are_never_shown(marathon: ScriptedServer, run: Run, golden: Golden) -> None:
    url = marathon.url.replace("://", "://ann:s%40cret@")
    assert run("app", "list", "-q", "--marathon-url", url).exit_code == 0
    assert login(marathon.requests[0]) == basic("ann:s@cret")
    marathon.on("GET", "/v2/apps", Answer(401, b""))
    refused = run("app", "list", "--marathon-url", url)
    assert refused.stderr == golden
    assert "cret" not in refused.stderr


def test_a_token_is_read_from_a_file(marathon: ScriptedServer, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("from-file\n")
    assert run("app", "list", "-q", "--token", f"@{path}").exit_code == 0
    assert login(marathon.requests[0]) == "token=from-file"
    assert "no such file" in run("app", "list", "--token", "@/no/such").stderr


def test_a_password_that_is_not_given_is_asked_for(marathon: ScriptedServer, run: Run) -> None:
    assert run("--auth", "ann", "app", "list", "-q", stdin="typed\n").exit_code == 0
    assert login(marathon.requests[0]) == basic("ann:typed")


def test_the_next_server_is_asked_when_one_is_down_or_cannot_answer(marathon: ScriptedServer, run: Run) -> None:
    down = f"http://127.0.0.1:{free_port()}"
    with scripted_server() as leaderless:
        leaderless.on("GET", "/v2/apps", Answer(503, {"message": "no leader"}))
        urls = f"{down}, {leaderless.url},{marathon.url}"
        assert run("app", "list", "-q", "--marathon-url", urls).exit_code == 0
        assert (len(leaderless.requests), len(marathon.requests)) == (1, 1)


def test_when_all_are_down_each_is_named(run: Run) -> None:
    first, second = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    result = run("app", "list", "--marathon-url", f"{first},{second}")
    assert result.exit_code == 1
    assert f"{first}: connection refused; {second}: connection refused" in result.stderr


def test_a_server_that_answered_is_asked_first_from_then_on(marathon: ScriptedServer) -> None:
    client = HttpClient(f"http://127.0.0.1:{free_port()},{marathon.url}", what="Marathon")
    assert client.ask("GET", "/v2/apps").status_code == 200
    assert client.url == marathon.url
    client.close()


def test_a_change_that_may_have_been_made_is_not_sent_to_another(golden: Golden) -> None:
    with scripted_server() as server, socket.create_server(("127.0.0.1", 0)) as mute:
        server.on("POST", "/x", {})
        urls = f"http://127.0.0.1:{mute.getsockname()[1]},{server.url}"
        client = HttpClient(urls, what="Marathon", access=Access(read_s=0.2))
        with pytest.raises(Unavailable) as refused:
            client.ask("POST", "/x", body={})
        assert str(refused.value) == golden
        assert server.requests == []
        server.on("GET", "/x", {})
        assert client.ask("GET", "/x").status_code == 200
        client.close()


def leading_to(url: str, status: int = 307) -> Callable[[Request], Answer]:
    return lambda request: Answer(status, b"", {"Location": url + request.path})


def test_a_redirect_to_the_leader_is_followed_with_the_change_and_without_credentials(server: ScriptedServer) -> None:
    with scripted_server() as leader:
        leader.on("POST", "/x", {"done": True})
        # As Mesos does: without a scheme.
        server.on("POST", "/x", leading_to(leader.url.removeprefix("http:")))
        client = HttpClient(server.url, what="Mesos master", access=Access(token="t"))
        assert client.ask("POST", "/x", body={"a": 1}).json() == {"done": True}
        assert (leader.requests[0].body, login(leader.requests[0])) == ({"a": 1}, None)
        client.close()
        both = HttpClient(f"{server.url},{leader.url}", what="Mesos master", access=Access(token="t"))
        both.ask("POST", "/x", body={"a": 2})
        assert login(leader.requests[1]) == "token=t"
        both.close()


@pytest.mark.parametrize(
    ("method", "status", "followed"), [("GET", 302, True), ("POST", 302, False), ("POST", 308, True)]
)
def test_only_what_is_safe_follows_everywhere(server: ScriptedServer, method: str, status: int, followed: bool) -> None:
    with scripted_server() as other:
        other.on(method, "/x", {})
        server.on(method, "/x", leading_to(other.url, status))
        client = HttpClient(server.url, what="Marathon")
        answer = client.ask(method, "/x", body=None if method == "GET" else {})
        assert (len(other.requests), answer.status_code) == ((1, 200) if followed else (0, status))
        client.close()


def test_a_circle_of_redirects_ends(server: ScriptedServer, golden: Golden) -> None:
    server.on("GET", "/x", leading_to(server.url))
    client = HttpClient(server.url, what="Marathon")
    with pytest.raises(Unavailable) as refused:
        client.ask("GET", "/x")
    assert str(refused.value) == golden
    assert len(server.requests) == 6
    client.close()


def test_a_proxy_is_gone_through_for_http_and_for_tls(
    marathon: ScriptedServer, secure: ScriptedServer, authority: Authority, run: Run
) -> None:
    with proxy() as between:
        login_url = between.url.replace("://", "://joe:pw@")
        assert run("app", "list", "-q", "--proxy", login_url).exit_code == 0
        assert [line.partition("?")[0] for line in between.seen] == [f"GET {marathon.url}/v2/apps"]
        assert between.logins == [basic("joe:pw")]
        words = ("--marathon-url", secure.url, "--ca", str(authority.certificate))
        assert run("app", "list", "-q", "--proxy", login_url, *words).exit_code == 0
        assert between.seen[1:] == [f"CONNECT {secure.url.removeprefix('https://')}"]
        assert len(secure.requests) == 1


def test_a_proxy_that_refuses_or_is_not_there_is_said(secure: ScriptedServer, run: Run, golden: Golden) -> None:
    with proxy() as between:
        between.refuses = True
        result = run("app", "list", "--marathon-url", secure.url, "--proxy", between.url)
        assert result.stderr == golden
    result = run("app", "list", "--proxy", f"http://127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert result.stderr == golden


def test_proxies_of_the_environment_are_for_the_world_outside(
    marathon: ScriptedServer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    assert run("app", "list", "-q").exit_code == 0


ENVIRON = {"http_proxy": "p:1", "HTTPS_PROXY": "http://q:2", "NO_PROXY": "corp.example, 10.0.0.0/8,*.lab:8080, .dot"}


@pytest.mark.parametrize(
    ("url", "through"),
    [
        ("http://m.example.org", "http://p:1"),
        ("https://m.example.org", "http://q:2"),
        ("http://localhost:8080", None),
        ("http://127.0.0.9", None),
        ("http://[::1]:8080", None),
        ("http://corp.example", None),
        ("http://a.corp.example:80", None),
        ("http://notcorp.example", "http://p:1"),
        ("http://10.2.3.4:5050", None),
        ("http://11.2.3.4:5050", "http://p:1"),
        ("http://x.lab:8080", None),
        ("http://x.lab:8081", "http://p:1"),
        ("http://x.dot", None),
    ],
)
def test_no_proxy_names_hosts_domains_networks_and_ports(url: str, through: str | None) -> None:
    assert proxy_for(url, Access(), ENVIRON) == through
    assert proxy_for(url, Access(proxy="none"), ENVIRON) is None
    assert proxy_for(url, Access(proxy="http://own:3"), ENVIRON) == "http://own:3"
    assert proxy_for("http://m.example.org", Access(), {"ALL_PROXY": "r:4", "NO_PROXY": "*"}) is None


@pytest.mark.parametrize("url", ["", ",", "ftp://x", "http://", "http://h:0", "http://h:99999", "http://[::1"])
def test_what_is_no_url_is_refused(url: str, golden: Golden) -> None:
    with pytest.raises(BadInput) as refused:
        addresses(url, what="Marathon")
    assert str(refused.value) == golden
