"""An exported defence: ONNX graphs, run by onnxruntime, with the calibration beside them. Needs NumPy and no torch."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alu import conformal
from alu.conformal import Calibration, numbers
from alu.engine import ADVICE, Graph, engine
from alu.errors import AluError, InputError, StorageError, UsageError
from alu.pixels import refuse_none, refuse_odd_images, refuse_other_size
from alu.progress import Count
from alu.state import Rows
from alu.storage import checksum, explained, read_checked, replacing_folder, sha256, write_checked

__all__ = ["Decision", "Exported", "load"]

Array = NDArray[Any]
FACTS, CALIBRATION = "exported.json", "calibration.json"
FORMAT = 1
READABLE = "an export in the format of this version of alu; export the defence again"


@dataclass(frozen=True)
class Decision(Rows):
    """What an exported defence says about each image: the fields of `alu.Decision`, as NumPy arrays.

    Parameters
    ----------
    label, accepted
        The predicted class (int64 [N]), and False where the rule abstains from answering (bool [N]).
    flagged, score, p_value
        Whether the detector flags the image, its score and its p-value [N]; NaN without a detector.
    state
        What the tests say about the image, as values of `alu.State` (int64 [N]); all clean without a detector.
    pre_logits, post_logits
        Logits before and after purification [N, classes].
    purified
        The purified images.

    Examples
    --------
    >>> alu.exported.load(export).decide(images.numpy())[0].to_dict()["state"]
    'clean'
    """

    label: Array
    accepted: Array
    flagged: Array
    score: Array
    p_value: Array
    state: Array
    pre_logits: Array
    post_logits: Array
    purified: Array


class Exported:
    """A defence that `alu.export` wrote, ready to answer; `load` makes one.

    Methods take `images`, an array [N, C, H, W] in [0, 1], `batch_size` of them at a time.

    Parameters
    ----------
    folder
        A folder that `alu.export` or `alu export` wrote.
    threads
        How many threads onnxruntime computes with; None leaves that to onnxruntime.

    Examples
    --------
    >>> alu.exported.Exported(export, threads=1).shape
    (3, 32, 32)
    """

    def __init__(self, folder: Path | str, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise UsageError(f"threads is a number of threads, at least 1, or None; it is {threads}.")
        self.folder, self._threads = Path(folder), threads
        facts = _read(self.folder, FACTS)
        try:
            self._understand(facts, threads)
            self._recall(_read(self.folder, CALIBRATION))
        except AluError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"{self.folder} is damaged: {type(error).__name__} {error}. {ADVICE}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        """It travels as the content of its folder, which need not be where it arrives."""
        files = {path.name: path.read_bytes() for path in sorted(self.folder.iterdir()) if path.is_file()}
        learned = {name: getattr(self, name) for name in ("engine", "calibration", "residual")}
        return _arrived, (files, self._threads), learned

    def _understand(self, facts: dict[str, Any], threads: int | None) -> None:
        """Settings and graphs; one that was changed since the export is refused."""
        self.facts = facts
        """Everything that exported.json says: settings, parts, provenance."""
        self.shape: tuple[int, ...] = tuple(facts["shape"])
        """Channels, height and width of the images it reads."""
        self.classes: tuple[str, ...] = tuple(facts["classes"])
        """Names of the classes, where they are known."""
        self.rule: str = facts["rule"]
        self._program: list[dict[str, Any]] = facts["program"]
        self._graphs: dict[str, Graph] = {}
        for name, digest in facts["graphs"].items():
            path = self.folder / Path(f"{name}.onnx").name
            if sha256(path) != digest:
                raise StorageError(f"{path} was changed after it was written: its checksum does not match. {ADVICE}")
            # The rule is too small to be shared out.
            self._graphs[name] = Graph(path, 1 if name == "rule" else threads)

    def _recall(self, plain: dict[str, Any]) -> None:
        """The calibration; that of another export is refused."""
        if plain["graphs"] != checksum(self.facts["graphs"]):
            raise StorageError(f"{self.folder / CALIBRATION} belongs to other graphs than those beside it. {ADVICE}")
        detector, residual = plain["detector"], plain["residual"]
        self.engine: str = plain["engine"]
        """What computed the scores of clean images: torch, or onnxruntime after `calibrate`."""
        self.calibration: Calibration | None = None
        if detector is not None:
            groups = None if detector["groups"] is None else np.asarray(detector["groups"], dtype=np.int64)
            self.calibration = Calibration(
                numbers(detector["scores"]), detector["false_alarm"], groups, detector["fixed"]
            )
        self.residual = None if residual is None else numbers(residual)

    def decide(self, images: Array, batch_size: int = 100) -> Decision:
        """The answer for each image, with what it was based on.

        Examples
        --------
        >>> alu.exported.load(export).decide(images.numpy()).flagged.shape
        (4,)
        """
        images = self._checked(images)
        parts = [self._judge(self._run(some)) for some in _batches(images, batch_size)]
        joined = (np.concatenate([getattr(part, item.name) for part in parts]) for item in fields(Decision))
        return Decision(*joined)

    def calibrate(self, images: Array, batch_size: int = 100, watch: Count | None = None) -> Exported:
        """Set the threshold again, from clean images that nothing was trained on, as this engine sees them; returns
        itself. `save` keeps it.

        The parts of a `Combined` detector keep their scale: give it other images than those of the first calibration.

        Parameters
        ----------
        watch
            Called with (images done, images in all).

        Examples
        --------
        >>> clean = alu.data.sample("calibration").images[:40].numpy()
        >>> again = alu.exported.load(export).calibrate(clean)
        """
        detector = self.facts["detector"]
        if detector is None:
            raise UsageError("This exported defence has no detector to calibrate. Export one that has.")
        images = self._checked(images)
        rate, fixed, who = detector["false_alarm"], detector["fixed"], detector["name"]
        if fixed is None:
            conformal.refuse_too_few(len(images), rate, who)
        parts = []
        for some in _batches(images, batch_size):
            parts.append({name: value for name, value in self._run(some).items() if name in LEARNED})
            if watch is not None:
                watch(sum(len(part["score"]) for part in parts), len(images))
        found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        if "group" in found:
            conformal.refuse_too_few_in_a_group(found["group"], found["post_logits"].shape[1], rate, who)
        self.calibration = Calibration.of(numbers(found["score"]), rate, found.get("group"), fixed, who)
        if "statistics" in found:
            self.residual = conformal.clean_residual(numbers(found["statistics"]))
        self.engine = engine()
        return self

    def save(self, path: Path | str) -> None:
        """Write the export, with the calibration that it has now, as a folder; it may be the one it came from.

        Parameters
        ----------
        path
            The folder.

        Examples
        --------
        >>> alu.exported.load(export).save(folder / "copy")
        """
        with replacing_folder(Path(path), is_export) as folder:
            for name in self._graphs:
                with explained(folder):
                    (folder / f"{name}.onnx").write_bytes((self.folder / f"{name}.onnx").read_bytes())
            write_checked(folder / FACTS, self.facts)
            write_calibration(folder, self.facts["graphs"], self.engine, self.calibration, self.residual)

    def _checked(self, images: Array) -> Array:
        """The images as the graphs take them, or a sentence that says why not."""
        if not isinstance(images, np.ndarray):
            raise InputError(f"Exported needs an array of images; it was given {type(images).__name__}.")
        refuse_odd_images(
            "Exported", images.shape, np.issubdtype(images.dtype, np.floating), images.dtype,
            lambda: (float(images.min()), float(images.max())),
        )  # fmt: skip
        refuse_none(images.shape)
        refuse_other_size(self.shape, images.shape)
        return np.ascontiguousarray(images, dtype=np.float32)

    def _run(self, images: Array) -> dict[str, Array]:
        """Everything that the graphs compute before any test: evidence, scores, statistics."""
        values: dict[str, Array] = {"images": images}
        for stage in self._program:
            graph = self._graphs[stage["graph"]]
            values |= {name: values[source] for name, source in stage.get("set", {}).items()}
            for factors in stage.get("factors", [[]]):
                values |= {
                    f"factor_{place}": np.array(factor, dtype=np.float32) for place, factor in enumerate(factors)
                }
                values |= graph.run(values)
                if "while" in stage and not values[stage["while"]].any():
                    break
        if not (np.isfinite(values["pre_logits"]).all() and np.isfinite(values["post_logits"]).all()):
            raise InputError("The exported classifier returned NaN or infinite logits. Check its weights.")
        return values

    def _judge(self, values: dict[str, Array]) -> Decision:
        """Both tests, then the rule, which is a graph as well."""
        count = len(values["images"])
        score = p_value = np.full(count, np.nan)
        flagged = noisy = specked = np.zeros(count, dtype=np.bool_)
        if self.calibration is not None:
            score, groups = values["score"], values.get("group")
            p_value = self.calibration.p_values(numbers(score), groups)
            flagged = self.calibration.flags(numbers(score), groups)
        if self.residual is not None:
            limits = conformal.residual_limits(self.residual, self.facts["eps"])
            noisy, specked = (numbers(values["statistics"]) > limits).T
        suspicious = p_value <= self.facts["suspicious"]
        tests = {"flagged": flagged, "suspicious": suspicious, "noisy": noisy, "specked": specked}
        answer = self._graphs["rule"].run(values | tests)
        return Decision(
            answer["label"], answer["accepted"], flagged, score, p_value, answer["state"], values["pre_logits"],
            values["post_logits"], values["purified"],
        )  # fmt: skip


LEARNED = ("score", "group", "statistics", "post_logits")
"""What a calibration is made from."""


def load(folder: Path | str, threads: int | None = None) -> Exported:
    """The defence that a folder holds.

    Parameters
    ----------
    folder, threads
        Those of `Exported`.

    Examples
    --------
    >>> alu.exported.load(export).decide(images.numpy()).label.dtype
    dtype('int64')
    """
    return Exported(folder, threads)


def _arrived(files: dict[str, bytes], threads: int | None) -> Exported:
    """An exported defence from the content of its folder, in a process that shares the processor with others."""
    with tempfile.TemporaryDirectory(prefix="alu-export-") as place:  # onnxruntime keeps what it has read
        for name, content in files.items():
            (Path(place) / name).write_bytes(content)
        return Exported(place, threads or 1)


def is_export(path: Path) -> bool:
    """Whether a folder holds an exported defence."""
    return (path / FACTS).is_file()


def write_calibration(
    folder: Path, graphs: dict[str, str], engine: str, calibration: Calibration | None, residual: Array | None
) -> None:
    """Write what was learned from clean images: scores, their groups, limits, and which engine and graphs gave them."""
    detector = None
    if calibration is not None:
        detector = {name: _plain(value) for name, value in asdict(calibration).items()}
    plain = {"graphs": checksum(graphs), "engine": engine, "detector": detector, "residual": _plain(residual)}
    write_checked(folder / CALIBRATION, plain)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _read(folder: Path, name: str) -> dict[str, Any]:
    if not is_export(folder):
        raise StorageError(
            f"{folder} is not an exported defence: it has no {FACTS}. `alu export` writes one from a saved defence."
        )
    facts = read_checked(folder / name, READABLE, ADVICE)
    if facts.get("format", FORMAT) != FORMAT:
        raise StorageError(f"{folder / name} is not {READABLE}.")
    return facts


def _batches(images: Array, size: int) -> list[Array]:
    if size < 1:
        raise UsageError(f"batch_size is at least 1; it is {size}.")
    return [images[start : start + size] for start in range(0, len(images), size)]
