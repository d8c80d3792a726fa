"""Visitors who come at once to a server that nobody has visited before: each is a thread, and what two import at once one finds half made."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RENDER = """
import json, os, sys
from ui import links, server
server.import_pages()
from streamlit.testing.v1 import AppTest
AppTest.from_string("1").run()
before = set(sys.modules)
for room in ("", *links.ROOMS, "sql"):
    app = AppTest.from_file(os.path.join(os.path.dirname(server.__file__), "app.py"), default_timeout=120)
    if room:
        app.switch_page(f"app_pages/{room}.py")
    assert not app.run().exception, app.exception
packages = {name.partition(".")[0] for name in server.FIRST_USED} | {"numpy"}
print(json.dumps(sorted(name for name in set(sys.modules) - before if name.partition(".")[0] in packages)))
"""


@pytest.mark.thorough
def test_what_pages_import_is_imported_before_the_server_answers(tiny: Path) -> None:
    environment = {**os.environ, "ATLAS_HOSTS": "", "ATLAS_DB": str(tiny), "ATLAS_SERVED": json.dumps([str(tiny)])}
    done = subprocess.run([sys.executable, "-c", RENDER], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []
