"""`alu reproduce`: a result, a table and a page; again it measures nothing; interrupted it goes on."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from tests.end_to_end.command import alu, snapshot, start


def test_a_table_a_file_and_a_page(tmp_path: Path) -> None:
    done = alu(tmp_path, "reproduce", "one-step", "--quick")
    assert done.code == 0, done.err
    assert "10 outputs" in done.out
    assert "paper.html" in done.out
    result = json.loads((tmp_path / "results" / "quick" / "one-step.json").read_text())
    assert result["complete"]
    assert result["sizes"] == {"n": 200}
    page = (tmp_path / "results" / "quick" / "paper.html").read_text()
    assert "One step with the right learning rate" in page
    before = result["cells"]
    again = alu(tmp_path, "reproduce", "one-step", "--quick")
    assert again.code == 0
    assert json.loads((tmp_path / "results" / "quick" / "one-step.json").read_text())["cells"] == before


def test_one_cell_of_an_experiment(tmp_path: Path) -> None:
    done = alu(tmp_path, "reproduce", "one-step", "--quick", "--only", "10 *s")
    assert done.code == 0, done.err
    result = json.loads((tmp_path / "results" / "quick" / "one-step.json").read_text())
    assert list(result["cells"]) == ["10 outputs"]
    assert not result["complete"]


def test_a_wrong_cell_is_answered_with_rows(tmp_path: Path) -> None:
    done = alu(tmp_path, "reproduce", "table2", "--only", "nothing*")
    assert done.code == 2
    assert "cifar10-at*" in done.sentence()
    assert len(done.sentence()) < 700, "rows, not every cell"


def test_the_list_names_every_experiment(tmp_path: Path) -> None:
    done = alu(tmp_path, "reproduce", "list")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()][:3] == ["table1", "table2", "table3"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["tabel2"], "There is no experiment 'tabel2'. Did you mean table2"),
        (["timing", "--device", "cuda:9"], "There is no device 'cuda:9'"),
        (["one-step", "--only", "cifar*"], "one-step has no cell 'cifar*'"),
        (["all", "--only", "cifar*"], "--only chooses among the cells of one experiment"),
    ],
)
def test_wrong_words(tmp_path: Path, words: list[str], sentence: str) -> None:
    done = alu(tmp_path, "reproduce", *words)
    assert done.code == 2
    assert sentence in done.sentence()
    assert not list(tmp_path.iterdir())


def test_other_sizes_and_foreign_files_are_refused(tmp_path: Path) -> None:
    assert alu(tmp_path, "reproduce", "one-step", "--quick", "--out", "here").code == 0
    before = snapshot(tmp_path)
    done = alu(tmp_path, "reproduce", "one-step", "--out", "here")
    assert "was measured with sizes {'n': 200}" in done.sentence()
    assert snapshot(tmp_path) == before
    (tmp_path / "here" / "one-step.json").write_text("no JSON")
    assert "is not valid JSON" in alu(tmp_path, "reproduce", "one-step", "--out", "here", "--quick").sentence()


def test_interrupted_it_goes_on(tmp_path: Path) -> None:
    running = start(tmp_path, "reproduce", "features", "--quick")
    out = tmp_path / "results/quick/features.json"
    end = time.monotonic() + 120
    while time.monotonic() < end and running.poll() is None:
        if out.exists() and "found" in out.read_text():
            break
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    if running.returncode == 130:  # it may have been done already, or have come to the page
        assert err.strip().splitlines()[-1].startswith("alu: Interrupted. ")
    first = json.loads(out.read_text())["cells"]["cifar10-standard"]
    done = alu(tmp_path, "reproduce", "features", "--quick")
    assert done.code in (0, 3)
    assert json.loads(out.read_text())["cells"]["cifar10-standard"] == first, "not measured again"
