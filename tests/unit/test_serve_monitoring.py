"""The monitor's state: written whole, continued exactly, never mixed up with another defence's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from alu.errors import StorageError
from alu.serve.engine import Answers
from alu.serve.monitoring import RECENT, Monitoring
from alu.serve.records import Records
from tests.serving import Brightness, wait_for


def answers(scores: list[float]) -> Answers:
    engine = Brightness()
    pixels = (np.array(scores)[:, None, None, None] * 255).astype(np.uint8) * np.ones((1, 3, 8, 8), np.uint8)
    return engine.decide(pixels)


def fed(portions: list[list[float]], alarm: float = 100.0) -> Monitoring:
    monitoring = Monitoring(Brightness(), alarm)
    for portion in portions:
        monitoring.add(answers(portion))
    return monitoring


def test_it_goes_on_exactly_after_a_restart(tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    first, second = draws.uniform(0, 0.7, 90).tolist(), draws.uniform(0, 0.9, 60).tolist()
    through = fed([first, second])
    stopped = fed([first])
    stopped.save(tmp_path / "state.json")
    again = Monitoring(Brightness(), 100.0)
    again.restore(tmp_path / "state.json")
    again.add(answers(second))
    assert again.report() == through.report()
    again.save(tmp_path / "a.json")
    through.save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_a_state_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    fed([[0.1, 0.2]]).save(path)
    other = Brightness()
    other.calibration = "d" * 64
    with pytest.raises(StorageError, match="another calibration"):
        Monitoring(other, 100.0).restore(path)
    with pytest.raises(StorageError, match="--alarm 100"):
        Monitoring(Brightness(), 50.0).restore(path)
    path.write_text(path.read_text().replace('"flagged": 0', '"flagged": 1'))
    with pytest.raises(StorageError, match="checksum"):
        Monitoring(Brightness(), 100.0).restore(path)
    path.write_text("{}")
    with pytest.raises(StorageError, match="not the state of a monitor"):
        Monitoring(Brightness(), 100.0).restore(path)


def test_without_scores_counts_survive_too(tmp_path: Path) -> None:
    engine = Brightness(clean=0)
    monitoring = Monitoring(engine, 100.0)
    monitoring.add(engine.decide(np.zeros((3, 3, 8, 8), np.uint8)))
    monitoring.save(tmp_path / "state.json")
    again = Monitoring(engine, 100.0)
    again.restore(tmp_path / "state.json")
    assert again.report() == monitoring.report()
    assert again.report()["pictures"] == 3


def test_only_the_last_pictures_are_shown_one_by_one() -> None:
    monitoring = fed([[0.2] * (RECENT + 50)])
    recent = monitoring.report()["recent"]
    assert (recent["pictures"], recent["first"], len(recent["log10_evidence"])) == (RECENT, 51, RECENT)
    assert json.dumps(monitoring.report(), allow_nan=False)


def test_state_is_written_now_and_then_and_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alu.serve.records.KEPT_EVERY", 0.05)
    monkeypatch.setattr("alu.serve.records.SYNCED_EVERY", 0.02)
    path = tmp_path / "folder" / "state.json"
    records = Records(state=path)
    records.begin(Brightness())
    records.count(answers([0.1]), [0.0], 0.1)
    wait_for(lambda: path.exists() and json.loads(path.read_text())["pictures"] == 1)
    monkeypatch.setattr("alu.serve.records.KEPT_EVERY", 1e9)
    records.count(answers([0.1, 0.2]), [0.0, 0.0], 0.1)
    records.end()
    assert json.loads(path.read_text())["pictures"] == 3
    assert [file.name for file in path.parent.iterdir()] == ["state.json"]


def test_a_state_that_cannot_be_written_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    records = Records(state=tmp_path / "file" / "state.json")
    records.begin(Brightness())
    records.end()
    assert "alu: warning: Cannot write" in capsys.readouterr().err
