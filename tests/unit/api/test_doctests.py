from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import flintstream.api

MODULES = [info.name for info in pkgutil.iter_modules(flintstream.api.__path__, "flintstream.api.")]
MODULES += ["flintstream.ops.conform", "flintstream.ops.rolling"]
MODULES += ["flintstream.model.job_graph", "flintstream.planner.picture_text"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_importing_the_package_does_not_import_spark():
    probe = "import sys, flintstream; print('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout == "False\n"
