import sys

from conftest import FOLDER

sys.path.insert(0, str(FOLDER / "tools"))

from twin import PACKAGE, twin


def test_the_client_without_asyncio_is_made_of_the_other_one():
    assert (PACKAGE / "_sync.py").read_text() == twin(), "run python tools/twin.py"
