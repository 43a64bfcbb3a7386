#!/bin/sh
# Makes .venv with this project and its tools in it, and a Java if the machine has none. Run by make, from the root.
set -eu

say() { printf 'setup: %s\n' "$*" >&2; }

# A name on the PATH proves nothing (pyenv keeps one for every version it has ever heard of): ask each to run.
# The newest comes last: DataSketches, which the tests need, has no wheels for it yet.
find_python() {
  for name in python3.13 python3.12 python3.11 python3.14 python3; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      command -v "$name"
      return
    fi
  done
  say "no Python 3.11 or newer on the PATH; install one (Debian and Ubuntu: apt-get install python3 python3-venv)"
  exit 1
}

# Debian ships Python without the half of venv that installs pip.
require_venv() {
  "$1" -c 'import ensurepip, venv' >/dev/null 2>&1 && return
  version=$("$1" -c 'import sys; print("{}.{}".format(*sys.version_info))')
  package=python$version-venv
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    say "$1 cannot make virtual environments; install its venv package (Debian and Ubuntu: sudo apt-get install $package)"
    exit 1
  fi
  say "installing $package"
  apt-get install -y -qq "$package" >/dev/null 2>&1 || {
    apt-get update -qq >/dev/null
    apt-get install -y -qq "$package" >/dev/null
  }
}

# Tests of connectors start servers of their own, those of the dashboard a browser; they are skipped where there is none.
install_servers() {
  missing=
  command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="postgresql"
  command -v redis-server >/dev/null || missing="$missing redis-server"
  command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
    missing="$missing chromium"
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    say "not on this machine, so tests of it are skipped: $missing (Debian and Ubuntu: sudo apt-get install $missing)"
    return 0
  fi
  say "installing for the tests: $missing"
  # The programs are wanted, not services that run from now on.
  policy=/usr/sbin/policy-rc.d
  [ -e "$policy" ] && policy= || { printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"; }
  # One by one: a name that a system does not know must not keep the others away.
  for package in $missing; do
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null 2>&1 || {
      apt-get update -qq >/dev/null 2>&1 || true
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null 2>&1 ||
        say "could not install $package: tests of it are skipped"
    }
  done
  [ -z "$policy" ] || rm -f "$policy"
}

if ! .venv/bin/python -c 'import pip' >/dev/null 2>&1; then
  python=$(find_python)
  require_venv "$python"
  say "making .venv with $("$python" --version)"
  rm -rf .venv
  "$python" -m venv .venv
fi

say "installing the project and its tools into .venv (the first time takes some minutes)"
export PIP_DISABLE_PIP_VERSION_CHECK=1
.venv/bin/python -m pip install --quiet --editable '.[dev]'

if ! .venv/bin/python -c 'import sys; from flintstream.spark.java import system_java; sys.exit(not system_java()[0])'; then
  say "no Java 17 or newer found: adding one to .venv"
  .venv/bin/python -m pip install --quiet --editable '.[java]'
fi

install_servers
