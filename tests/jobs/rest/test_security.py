"""The decisions of `security`, one by one: names, origins, tokens, sessions and paths."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.errors import InvalidArgumentError
from flintstream.jobs.security import SESSION_SECONDS, Access, Roots, host_name, is_printable

HERE = Access("secret-token", "127.0.0.1", 8081)
WIDE = Access("secret-token", "0.0.0.0", 8081, frozenset({"manager.example"}))
LOCAL = {b"host": b"localhost:8081"}
OPEN = {b"host": b"10.1.2.3:8081"}


def status(access: Access, headers: dict[bytes, bytes], method: str = "GET", path: str = "/v1/jobs") -> int:
    verdict = access.refuses(method, path, headers, is_api=path.startswith("/v1"))
    return 200 if verdict is None else verdict.status


@pytest.mark.parametrize("host", [b"localhost", b"LOCALHOST:9", b"127.0.0.1:8081", b"127.3.2.1", b"[::1]:8081"])
def test_a_loopback_name_is_ours(host: bytes) -> None:
    assert status(HERE, {b"host": host}) == 200


@pytest.mark.parametrize(
    "host",
    [b"evil.example", b"localhost.evil.example", b"10.1.2.3", b"", b"a b", b"localhost:99999999", b"[::1", b"\xff"],
)
def test_another_name_is_a_rebound_one(host: bytes) -> None:
    assert status(HERE, {b"host": host}) == 421


def test_no_host_is_refused() -> None:
    assert status(HERE, {}) == 421


def test_bound_wider_it_goes_by_addresses_and_by_names_it_was_told() -> None:
    token = {b"authorization": b"Bearer secret-token"}
    for host, expected in ((b"10.1.2.3:8081", 200), (b"manager.example", 200), (b"other.example", 421)):
        assert status(WIDE, {b"host": host, **token}) == expected


@pytest.mark.parametrize(
    "origin", [b"http://evil.example", b"null", b"http://localhost:3000", b"file://", b"localhost:8081", b""]
)
def test_a_page_of_another_origin_is_refused(origin: bytes) -> None:
    assert status(HERE, {**LOCAL, b"origin": origin}) == 403
    assert status(HERE, {**LOCAL, b"origin": origin}, "POST", "/v1/jobs/x/cancel") == 403


def test_the_dashboard_itself_is_not() -> None:
    headers = {**LOCAL, b"origin": b"http://localhost:8081", b"sec-fetch-site": b"same-origin"}
    assert status(HERE, headers, "POST", "/v1/jobs/x/cancel") == 200


@pytest.mark.parametrize("site", [b"cross-site", b"same-site", b"whatever"])
def test_what_browsers_say_of_the_site_counts_without_an_origin(site: bytes) -> None:
    assert status(HERE, {**LOCAL, b"sec-fetch-site": site}) == 403


def test_a_link_from_elsewhere_leads_to_the_dashboard_and_nowhere_else() -> None:
    link = {b"sec-fetch-site": b"cross-site", b"sec-fetch-mode": b"navigate", b"sec-fetch-dest": b"document"}
    assert status(HERE, {**LOCAL, **link}, "GET", "/") == 200
    assert status(HERE, {**LOCAL, **link}, "GET", "/v1/jobs") == 403
    assert status(HERE, {**LOCAL, **link, b"sec-fetch-dest": b"iframe"}, "GET", "/") == 403


def test_submitting_always_needs_the_token() -> None:
    assert status(HERE, LOCAL, "POST") == 401
    assert status(HERE, {**LOCAL, b"authorization": b"bearer secret-token"}, "POST") == 200
    assert status(HERE, {**LOCAL, b"cookie": f"{HERE.cookie}={HERE.new_session()}".encode()}, "POST") == 401


def test_on_loopback_nothing_else_does() -> None:
    assert status(HERE, LOCAL) == 200
    assert status(HERE, LOCAL, "POST", "/v1/jobs/x/cancel") == 200


def test_bound_wider_everything_does_but_the_page_that_asks_for_it() -> None:
    assert status(WIDE, OPEN) == 401
    assert status(WIDE, OPEN, "GET", "/v1/metrics") == 401
    assert status(WIDE, OPEN, "DELETE", "/v1/jobs/x") == 401
    assert status(WIDE, OPEN, "GET", "/index.html") == 200
    assert status(WIDE, OPEN, "POST", "/v1/session") == 200


@pytest.mark.parametrize(
    "given_",
    [b"Bearer wrong", b"Bearer ", b"secret-token", b"Basic secret-token", b"Bearer secret-token2",
     b"Bearer secret-toke", b"Bearer \xff\xfe", b""],
)  # fmt: skip
def test_a_wrong_token_is_refused_even_where_none_is_needed(given_: bytes) -> None:
    assert status(HERE, {**LOCAL, b"authorization": given_}) == 401
    assert status(WIDE, {**OPEN, b"authorization": given_}) == 401


def test_without_a_token_of_its_own_a_manager_knows_none() -> None:
    assert not Access("").is_token(b"")


def test_a_session_lets_look_and_not_touch() -> None:
    session = {**OPEN, b"cookie": f"other=1; {WIDE.cookie}={WIDE.new_session()}; x=y".encode()}
    assert status(WIDE, session) == 200
    assert status(WIDE, session, "POST", "/v1/jobs/x/cancel") == 401


def test_a_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    value = WIDE.new_session()
    monkeypatch.setattr("time.time", lambda: int(value.partition(".")[0]) - 1)
    assert status(WIDE, {**OPEN, b"cookie": f"{WIDE.cookie}={value}".encode()}) == 200
    monkeypatch.setattr("time.time", lambda: int(value.partition(".")[0]) + 1)
    assert status(WIDE, {**OPEN, b"cookie": f"{WIDE.cookie}={value}".encode()}) == 401


def test_a_session_cannot_be_prolonged_or_carried_elsewhere() -> None:
    until, _, signature = WIDE.new_session().partition(".")
    longer = f"{int(until) + SESSION_SECONDS}.{signature}"
    elsewhere = Access("secret-token", "0.0.0.0", 9999).new_session()
    other = Access("another-token", "0.0.0.0", 8081).new_session()
    for value in (longer, elsewhere, other, until, "", ".", "9" * 400 + ".x", "²." + signature):
        assert status(WIDE, {**OPEN, b"cookie": f"{WIDE.cookie}={value}".encode()}) == 401


def test_the_token_is_not_shown() -> None:
    assert "secret" not in repr(WIDE)


@given(st.binary(max_size=60))
def test_any_host_header_is_judged(header: bytes) -> None:
    name = host_name(header)
    assert name is None or is_printable(name)


@pytest.mark.parametrize("text", ["a\r\nb", "a\x00", "\x1b[31m", "\u2028", "\x85", "\ud800"])
def test_what_would_break_a_line_is_not_printable(text: str) -> None:
    assert not is_printable(text)


class TestRoots:
    @pytest.fixture
    def roots(self, tmp_path: Path) -> Roots:
        (tmp_path / "home").mkdir()
        return Roots([str(tmp_path / "home"), "s3://bucket/savepoints"])

    @pytest.mark.parametrize("inside", ["", "/", "/a", "/a/b/", "/./a", "/a/../b", "/new/deep"])
    def test_below_a_root(self, roots: Roots, tmp_path: Path, inside: str) -> None:
        found = roots.resolved(f"{tmp_path}/home{inside}")
        assert found is not None
        assert Path(found).is_relative_to(tmp_path / "home")
        assert ".." not in found

    @pytest.mark.parametrize(
        "outside", ["/etc", "{}/home/../other", "{}/homeless", "{}", "/", "file://{}/home/../x", "file:///etc", "//etc"]
    )
    def test_beside_it(self, roots: Roots, tmp_path: Path, outside: str) -> None:
        assert roots.resolved(outside.format(tmp_path)) is None

    def test_what_is_escaped_in_an_address_of_a_file_is_judged_as_it_is_read(
        self, roots: Roots, tmp_path: Path
    ) -> None:
        assert roots.resolved(f"file://{tmp_path}/home/%2e%2e/x") is None
        assert roots.resolved(f"file://{tmp_path}/home/a") == f"{tmp_path}/home/a"

    def test_a_link_does_not_lead_out(self, roots: Roots, tmp_path: Path) -> None:
        (tmp_path / "home" / "link").symlink_to("/etc")
        assert roots.resolved(f"{tmp_path}/home/link/x") is None

    def test_links_in_a_circle(self, roots: Roots, tmp_path: Path) -> None:
        (tmp_path / "home" / "one").symlink_to(tmp_path / "home" / "two")
        (tmp_path / "home" / "two").symlink_to(tmp_path / "home" / "one")
        with pytest.raises(InvalidArgumentError):
            roots.resolved(f"{tmp_path}/home/one/x")

    @pytest.mark.parametrize(
        "none", ["", "relative", "./x", "../x", "/a\x00b", "/a\nb", "s3://bucket/savepoints/../x", "s3://bucket/a?b",
                 "s3://bucket/savepoints/%2e%2e/x", "http://[::1/x", "s3://bucket/a//b"],
    )  # fmt: skip
    def test_what_is_no_place_at_all(self, roots: Roots, none: str) -> None:
        with pytest.raises(InvalidArgumentError):
            roots.resolved(none)

    def test_stores(self, roots: Roots) -> None:
        assert roots.resolved("s3://bucket/savepoints/a/") == "s3://bucket/savepoints/a"
        assert roots.resolved("s3://bucket/savepoints2") is None
        assert roots.resolved("s3://other/savepoints/a") is None
        assert roots.resolved("gs://bucket/savepoints/a") is None

    def test_a_jobs_own(self, roots: Roots, tmp_path: Path) -> None:
        own = [str(tmp_path / "mine"), "relative"]
        assert roots.resolved(f"{tmp_path}/mine/a", own) == f"{tmp_path}/mine/a"
        assert roots.resolved(f"{tmp_path}/other", own) is None
