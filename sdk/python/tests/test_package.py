"""What is released: the wheel, the source distribution, and the page that describes them."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from support.vectors import ROOT

LICENSE = (ROOT / "LICENSE").read_bytes()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT / "sdk" / "python", check=True, capture_output=True)
    return folder


def read_wheel(built: Path) -> tuple[zipfile.ZipFile, Message]:
    [path] = built.glob("*.whl")
    wheel = zipfile.ZipFile(path)
    [name] = [name for name in wheel.namelist() if name.endswith("METADATA")]
    return wheel, message_from_bytes(wheel.read(name))


def test_the_licence_is_in_both(built: Path) -> None:
    wheel, metadata = read_wheel(built)
    with wheel:
        [name] = [name for name in wheel.namelist() if name.endswith("licenses/LICENSE")]
        assert wheel.read(name) == LICENSE
    assert (metadata["License-Expression"], metadata["License-File"]) == ("Apache-2.0", "LICENSE")
    [path] = built.glob("*.tar.gz")
    with tarfile.open(path) as source:
        [member] = [member for member in source.getmembers() if member.name.endswith("/LICENSE")]
        file = source.extractfile(member)
        assert file is not None
        assert file.read() == LICENSE


def test_the_wheel_is_typed_and_has_nothing_but_the_package(built: Path) -> None:
    wheel, _ = read_wheel(built)
    with wheel:
        names = wheel.namelist()
    assert "tidegate/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"tidegate"}


def test_links_of_the_page_lead_somewhere_from_anywhere(built: Path) -> None:
    wheel, metadata = read_wheel(built)
    wheel.close()
    page = str(metadata.get_payload())
    headings = {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    }
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert links
    for link in links:
        assert link.startswith("https://") or (link[0] == "#" and link[1:] in headings), link
    assert "Repository, https://" in str(metadata["Project-URL"])
