"""Cards: the facts that travel with weights (figures, source, licence, hash), and loading by name."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from alu.errors import StorageError, UntrustedError, UsageError, nearest
from alu.models.architecture import rebuild
from alu.stats import Share
from alu.storage import read_json, read_tensors, write_json, write_tensors

WEIGHTS = Path(__file__).parent / "weights"


@dataclass(frozen=True)
class Card:
    """What is known about a network's weights.

    Parameters
    ----------
    name, task, architecture
        Its name; "classifier", "vae", "denoiser", "pca", "score", "energy" or "contrastive"; and the description from
        which it is rebuilt.
    data, command
        What it was trained on and how much of it, and the command that trains it again.
    source, licence
        Where the weights come from, and under which licence.
    sha256
        Of the weights themselves (names, shapes, values), not of the file.
    figures, classes
        Measured figures by name, each with what it was measured on; and the names of the classes.
    differs
        How it differs from the paper it is taken from, as sentences.

    Examples
    --------
    >>> alu.models.card("cifar10-vae").task
    'vae'
    """

    name: str
    task: str
    architecture: dict[str, Any]
    data: str
    command: str
    source: str
    licence: str
    sha256: str
    figures: dict[str, Any] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    differs: str = ""


def as_figure(share: Share, on: str) -> dict[str, Any]:
    """A share as a card says it: in percent, with its interval, its number of images, and what they are."""
    interval = [round(100 * end, 2) for end in share.interval]
    return {"percent": round(100 * share.value, 2), "interval": interval, "n": share.n, "on": on}


def weight_hash(model: nn.Module) -> str:
    """SHA-256 of the names and values of all tensors of a network, also of those that are not saved (normalisation).

    Parameters
    ----------
    model
        The network.

    Examples
    --------
    >>> alu.models.weight_hash(classifier) == alu.models.card("cifar10-standard").sha256
    True
    """
    digest = hashlib.sha256()
    for name, tensor in sorted([*model.named_parameters(), *model.named_buffers()]):
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {tuple(plain.shape)} {plain.dtype}\n".encode())
        digest.update(plain.view(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return digest.hexdigest()


def names(task: str | None = None) -> list[str]:
    """Names of the bundled models.

    Parameters
    ----------
    task
        Only those of this task, such as "classifier" or "vae".

    Examples
    --------
    >>> "cifar10-standard" in alu.models.names("classifier")
    True
    """
    bundled = sorted(path.stem for path in WEIGHTS.glob("*.json"))
    return [name for name in bundled if task is None or card(name).task == task]


def card(name: str) -> Card:
    """The card of a bundled model.

    Parameters
    ----------
    name
        One of `alu.models.names()`.

    Examples
    --------
    >>> figures = alu.models.card("cifar10-standard").figures
    """
    path = WEIGHTS / f"{name}.json"
    if not path.exists():
        known = [entry.stem for entry in WEIGHTS.glob("*.json")]
        raise UsageError(f"There is no bundled model {name!r}. {nearest(name, known)}")
    return read_card(path)


def read_card(path: Path) -> Card:
    """A card from its file."""
    try:
        values = read_json(path)
        return Card(**{**values, "classes": tuple(values.get("classes", ()))})
    except TypeError as error:
        raise StorageError(f"{path} is not a model card ({error}).") from error


def load(name: str) -> nn.Module:
    """A bundled model in eval mode, with its card as `.card`; its hash is checked.

    Parameters
    ----------
    name
        One of `alu.models.names()`.

    Examples
    --------
    >>> logits = alu.models.load("cifar10-standard")(images)
    """
    facts = card(name)
    return _opened(facts, WEIGHTS / f"{name}.safetensors")


def load_file(path: Path | str) -> nn.Module:
    """A model that `save` wrote, in eval mode.

    Parameters
    ----------
    path
        The .safetensors file, with its card beside it.

    Examples
    --------
    >>> again = alu.models.load_file(alu.models.save(classifier, classifier.card, folder))
    """
    path = Path(path)
    card_path = path.with_suffix(".json")
    if not card_path.is_file():
        raise StorageError(f"{path} has no card {card_path.name} beside it. alu.models.save writes both; copy both.")
    return _opened(read_card(card_path), path)


def _opened(facts: Card, path: Path) -> nn.Module:
    model = rebuild(facts.architecture)
    stored = read_tensors(path)
    # Half precision on disk halves the package; computation is in single precision.
    state = {k: v.float() if v.dtype == torch.float16 else v for k, v in stored.items()}
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise StorageError(
            f"{path} does not hold the weights of {facts.architecture['name']}. Copy it again."
        ) from error
    if weight_hash(model) != facts.sha256:
        raise StorageError(f"{path} does not match its card. Train or copy it again (bundled model: reinstall alu).")
    model.card = facts  # type: ignore[assignment]
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model.eval()


def rounded(model: nn.Module) -> nn.Module:
    """The same network, its weights rounded to half precision in place: what `save(half=True)` requires.

    Parameters
    ----------
    model
        The network.

    Examples
    --------
    >>> network = alu.models.rounded(alu.models.vae(latent=2, width=8))
    """
    state = {key: _half(value).to(value.dtype) for key, value in model.state_dict().items()}
    if not all(bool(torch.isfinite(value).all()) for value in state.values()):
        raise UsageError(f"{type(model).__name__} has weights beyond half precision, 65,504. Save it without half.")
    model.load_state_dict(state)
    return model


def _half(value: torch.Tensor) -> torch.Tensor:
    return value.half() if value.is_floating_point() else value


def save(model: nn.Module, facts: Card, folder: Path = WEIGHTS, *, half: bool = False) -> Path:
    """Write weights and card; returns the path of the weights.

    Parameters
    ----------
    model, facts
        The network, and its card; the hash is computed here.
    folder
        Where to write.
    half
        Whether to store a `rounded` network in half precision, which halves the file.

    Examples
    --------
    >>> path = alu.models.save(classifier, classifier.card, folder)
    """
    path = folder / f"{facts.name}.safetensors"
    state = model.state_dict()
    if half:
        state = {key: _half(value) for key, value in state.items()}
        if not all(torch.equal(state[key].to(value.dtype), value) for key, value in model.state_dict().items()):
            raise UsageError("These weights would change in half precision. Round them first: alu.models.rounded.")
    write_tensors(path, state)
    write_json(path.with_suffix(".json"), {**asdict(facts), "sha256": weight_hash(model)})
    return path


def bundled_name(model: object) -> str | None:
    """The bundled name of a network whose weights are still the ones on its card, else None."""
    facts = getattr(model, "card", None)
    if isinstance(model, nn.Module) and isinstance(facts, Card) and (WEIGHTS / f"{facts.name}.json").exists():
        return facts.name if weight_hash(model) == facts.sha256 else None
    return None


def load_weights(model: nn.Module, path: Path | str) -> nn.Module:
    """The network with the weights of a file, in eval mode.

    Parameters
    ----------
    model
        The network, which is changed in place.
    path
        A .safetensors file, or a pickle (.pt, .pth, .th); a pickle is read with `weights_only=True`, which refuses
        anything but tensors and plain containers.

    Examples
    --------
    >>> path = alu.models.save(classifier, classifier.card, folder)
    >>> network = alu.models.load_weights(alu.models.rebuild(classifier.architecture), path)
    """
    path = Path(path)
    if path.suffix == ".safetensors":
        state: Any = read_tensors(path)
    else:
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except OSError as error:
            raise StorageError(f"Cannot read {path}: {error.strerror or error}.") from error
        except Exception as error:
            raise UntrustedError(
                f"{path} is not a plain file of weights: it is damaged, or a pickle that would run code when opened. "
                "It was not opened. Ask for a .safetensors file, or a state_dict saved with torch.save."
            ) from error
    if isinstance(state, dict):
        for wrapper in ("state_dict", "model"):
            state = state[wrapper] if isinstance(state.get(wrapper), dict) else state
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise StorageError(f"{path} does not hold a state_dict of tensors.")
    # Data-parallel training leaves a prefix on every name.
    state = {name.removeprefix("module."): tensor for name, tensor in state.items()}
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise StorageError(f"The weights in {path} do not fit this network: {first[:200]}") from error
    return model.eval()
