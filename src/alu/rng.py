"""Random numbers: (seed, *names) -> torch.Generator, or plain numbers without torch. The only place that makes them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what needs no tensor imports this file without torch
    import torch
    from torch import Tensor


def derived_seed(seed: int, *names: object) -> int:
    """A 63-bit seed that depends on the seed and on every name, so that two uses never share a stream."""
    text = "\x1f".join([str(int(seed)), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def uniforms(start: int, count: int, seed: int, *names: object) -> list[float]:
    """The numbers `start` to `start + count - 1` of a stream of uniform draws strictly between 0 and 1.

    Each depends on the seed, the names and its own number alone: to go on after a restart, the number is enough.
    """
    # Half of 52 random bits' last place is added, so that neither 0 nor 1 is ever drawn.
    return [((derived_seed(seed, *names, number) >> 11) + 0.5) * 2.0**-52 for number in range(start, start + count)]


def generator(seed: int, *names: object, device: torch.device | str = "cpu") -> torch.Generator:
    """A fresh generator for this seed and purpose; the global random state is neither read nor changed."""
    import torch

    stream = torch.Generator(device=device)
    stream.manual_seed(derived_seed(seed, *names))
    return stream


def normal_per_image(images: Tensor, shape: tuple[int, ...], seed: int, *names: object) -> Tensor:
    """Normal noise [N, *shape] whose row depends on the content of its image, not on its place in the batch.

    Content is the only thing that stays with an image when a batch is cut, shuffled or padded.
    """
    import torch

    stream = torch.Generator()
    noise = torch.empty((len(images), *shape), dtype=torch.float32)
    for digest, out in zip(digests(images), noise, strict=True):
        stream.manual_seed(derived_seed(seed, *names, digest))
        out.normal_(generator=stream)
    return noise.to(images.device, images.dtype)


def digests(images: Tensor) -> list[str]:
    """A name for the content of each image."""
    import torch

    rows = images.detach().to("cpu", torch.float32).contiguous()
    return [hashlib.blake2b(row.numpy().tobytes(), digest_size=16).hexdigest() for row in rows]


def uniform_per_image(numbers: Sequence[object], shape: tuple[int, ...], seed: int, *names: object) -> Tensor:
    """Uniform noise in [-1, 1), [len(numbers), *shape]; a row depends on its image's number, or digest, alone."""
    import torch

    stream = torch.Generator()
    noise = torch.empty((len(numbers), *shape), dtype=torch.float32)
    for number, out in zip(numbers, noise, strict=True):
        stream.manual_seed(derived_seed(seed, *names, number))
        out.uniform_(-1.0, 1.0, generator=stream)
    return noise
