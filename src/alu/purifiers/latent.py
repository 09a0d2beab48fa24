"""LatentVAE: re-synthesise an image by optimising the latent code of a VAE at test time (the paper's purifier)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, Protocol, cast, get_args

import torch
from torch import Tensor, nn

from alu.errors import InputError, UsageError, check_choice
from alu.models.cards import load
from alu.models.vae import padded_to
from alu.purifiers.base import GradMode, Purification, Purifier, Traits
from alu.purifiers.implicit import Implicit
from alu.purifiers.learned import Learned, learned_steps, load_learned
from alu.purifiers.solvers import (
    Adam,
    GradientDescent,
    LatentProblem,
    Objective,
    Schedule,
    Solver,
    SolverName,
    solve,
    stable_rate,
)
from alu.purifiers.unrolled import Descent, Unrolled
from alu.rng import generator, normal_per_image

Start = Literal["encoder", "sampled", "random"]


@cache
def random_code(seed: int, shape: tuple[int, ...]) -> Tensor:
    """The normal code that all images start from; drawn once, so that an exported graph holds it as a constant."""
    return torch.randn(shape, generator=generator(seed, "random code", shape))


class Codec(Protocol):
    """Any VAE: `encode(images) -> (mean, logvar)` and `decode(code) -> images`."""

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of the code."""
        ...

    def decode(self, code: Tensor) -> Tensor:
        """Images of a code."""
        ...


class LatentVAE(Purifier):
    """P_N(x) = D(z_N): the image decoded from a latent code that N steps fit to the input.

    Parameters
    ----------
    vae
        A module with `encode` and `decode`, or the name of a bundled one.
    steps
        N, the number of latent steps: 20 by default, or all learned ones.
    lr, schedule
        The rate of the steps, and whether it is "constant" or falls as a half "cosine".
    solver
        "adam", "gd" (gradient descent), or "learned": an encoder and one or two corrections that were trained to
        leave what many steps would leave (`alu.models.amortised`); a bundled VAE stands for its network with them.
    objective, prior
        Each step reduces ||D(z) - x||² ("sse"), its mean per value ("mse") or the norm ("norm"), plus prior * ||z||².
    start, seed
        Where z starts: the encoder's mean ("encoder"), a draw from its posterior ("sampled"; the draw depends on the
        image and on `seed`), or one normal code for all images ("random").
    twin_lr
        With Adam, the `unrolled` gradient is that of a gradient-descent twin; this is its rate, if it is not estimated.

    Examples
    --------
    >>> purified = alu.purifiers.LatentVAE("cifar10-vae", steps=2)(images)
    """

    def __init__(
        self, vae: nn.Module | str, *, steps: int | None = None, lr: float = 5e-2, solver: SolverName = "adam",
        objective: Objective = "sse", start: Start = "encoder", schedule: Schedule = "cosine", prior: float = 0.0,
        seed: int = 0, twin_lr: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        who = type(self).__name__
        check_choice("solver", solver, get_args(SolverName))
        check_choice("objective", objective, get_args(Objective))
        check_choice("start", start, get_args(Start))
        check_choice("schedule", schedule, get_args(Schedule))
        count = 20 if steps is None else steps
        if count < 0 or not lr > 0 or prior < 0:
            raise UsageError(f"{who} needs steps >= 0, lr > 0, prior >= 0; it was given {count}, {lr:g}, {prior:g}.")
        self.vae = (load_learned if solver == "learned" else load)(vae) if isinstance(vae, str) else vae
        for method in ("encode", "decode"):
            if not callable(getattr(self.vae, method, None)):
                raise UsageError(f"{who} needs a VAE with encode and decode; {type(vae).__name__} has no {method}.")
        if solver == "learned":
            usual = {
                "lr": (lr, 5e-2), "objective": (objective, "sse"), "start": (start, "encoder"),
                "schedule": (schedule, "cosine"), "prior": (prior, 0.0), "twin_lr": (twin_lr, None),
            }  # fmt: skip
            count = learned_steps(self.vae, steps, usual, who)
        self.steps, self.lr, self.solver, self.objective = count, lr, solver, objective
        self.start, self.schedule, self.prior, self.seed, self.twin_lr = start, schedule, prior, seed, twin_lr

    @property
    def traits(self) -> Traits:
        """Iterative, unless its steps are learned; random if it samples its start; with Adam, differentiable only
        through its twin."""
        return Traits(
            stochastic=self.start == "sampled",
            iterative=self.steps > 0 and not self.learned,
            gradient="twin" if self.solver == "adam" and self.steps else "exact",
        )

    @property
    def learned(self) -> bool:
        """Whether its steps are learned: a network that is differentiated like any other."""
        return self.solver == "learned"

    @property
    def has_reconstruction(self) -> bool:
        """Always: D(E(x))."""
        return True

    @property
    def codec(self) -> Codec:
        """The VAE, typed by its two methods."""
        return cast(Codec, self.vae)

    read: Callable[[Tensor], Tensor] | None = None
    """Code -> output; None where the output is D(z) itself."""

    @property
    def problem(self) -> LatentProblem:
        """What the steps minimise."""
        return LatentProblem(self.codec.decode, self.objective, self.prior, self.read)

    def start_code(self, images: Tensor, draw: int = 0) -> Tensor:
        """z_0 for (padded) images; `draw` numbers independent draws of a sampled code."""
        if self.learned:
            return self._walk(images, 0)[0][0]
        mean, logvar = self.codec.encode(images)
        if self.start == "encoder":
            return mean
        shape = tuple(mean.shape[1:])
        if self.start == "sampled":
            noise = normal_per_image(images, shape, self.seed, "code", draw)
            return mean + (0.5 * logvar).exp() * noise
        return random_code(self.seed, shape).to(mean).expand_as(mean).clone()

    def reconstruct(self, images: Tensor) -> Tensor:
        """D(E(x)); with a sampled start, from a draw of its own."""
        return self._through_encoder(images, draw=1)

    def run(self, images: Tensor) -> Tensor:
        """D(z_N)."""
        return self._exact(images, False).purified

    def surrogate(self, images: Tensor) -> Tensor:
        """D(E(x)), no steps: backward through encoder and decoder, wherever the steps start."""
        return self._through_encoder(images, draw=0)

    def _through_encoder(self, images: Tensor, draw: int) -> Tensor:
        padded = self.padded(images)
        code = self.codec.encode(padded)[0] if self.start == "random" else self.start_code(padded, draw)
        return self.cropped(self.problem.output(code), images)

    def code(self, images: Tensor, first_output: list[Tensor] | None = None) -> Tensor:
        """z_N of (padded) images, without a graph."""
        with torch.no_grad():
            if self.learned:
                codes, outputs = self._walk(images, self.steps)
                if first_output is not None:
                    first_output += outputs[:1]
                return codes[-1]
            start = self.start_code(images)
            return self._solved(images, start, first_output)

    def _walk(self, images: Tensor, steps: int) -> tuple[list[Tensor], list[Tensor]]:
        return cast(Learned, self.vae).walk(images, steps)

    def decoded(self, code: Tensor, images: Tensor) -> Tensor:
        """The purified version of these images that a code stands for."""
        return self._clipped(self.cropped(self.problem.output(code), images))

    @torch.no_grad()
    def trajectory(self, images: Tensor, stations: int) -> list[Tensor]:
        """The outputs at evenly spaced steps; the last one is the purified image."""
        count = min(stations, self.steps + 1)
        return self.outputs(images, [round((number + 1) * self.steps / count) for number in range(count)])

    @torch.no_grad()
    def outputs(self, images: Tensor, counts: Sequence[int]) -> list[Tensor]:
        """The outputs of one descent after each of these numbers of steps, none above `steps`. With a constant rate,
        they are those of a purifier with so many steps; not with a falling one, which falls more slowly here."""
        padded = self.padded(images)
        if self.learned:
            codes, _ = self._walk(padded, self.steps)
            return [self.decoded(codes[count], images) for count in counts]
        kept: dict[int, Tensor] = {}
        step = 0

        def visit(code: Tensor) -> None:
            nonlocal step
            if step in wanted:
                kept[step] = self.decoded(code, images)
            step += 1

        wanted, start = set(counts), self.start_code(padded)
        solve(self.problem, padded, start, self.new_solver(start), self.steps, visit=visit)
        return [kept[count] for count in counts]

    def _solved(self, images: Tensor, start: Tensor, first_output: list[Tensor] | None = None) -> Tensor:
        solver = self.new_solver(start)
        return solve(self.problem, images.detach(), start, solver, self.steps, first_output=first_output)

    def new_solver(self, like: Tensor) -> Solver:
        """The solver before its first step on codes like this one."""
        if self.solver == "gd":
            return GradientDescent(self.lr, self.schedule, self.steps)
        return Adam(self.lr, self.schedule, self.steps, like.detach(), betas=(0.9, 0.99))

    def _exact(self, images: Tensor, reconstruct: bool) -> Purification:
        padded = self.padded(images)
        first: list[Tensor] = []
        with torch.no_grad():
            final = self.code(padded, first)
            output = self.decoded(final, images)
            if not reconstruct:
                return Purification(output)
            if self.start == "encoder" and self.read is None and first:
                # The first step has already decoded z_0.
                return Purification(output, self._clipped(self.cropped(first[0], images)))
            return Purification(output, self.reconstructed(images))

    def differentiated(self, images: Tensor, grad_mode: GradMode, reconstruct: bool) -> Purification:
        """The deployed output with the gradient of `grad_mode`."""
        if grad_mode == "surrogate":
            return super().differentiated(images, grad_mode, reconstruct)
        reconstruction = self.reconstructed(images) if reconstruct else None
        padded = self.padded(images)
        if self.learned:
            return Purification(self.decoded(self._walk(padded, self.steps)[0][-1], images), reconstruction)
        if grad_mode == "implicit":
            code = self.code(padded.detach())
            output: Tensor = Implicit.apply(padded, code, self.problem, 40, 1e-3)  # type: ignore[no-untyped-call]
        else:
            start = self.start_code(padded)
            output = Unrolled.apply(padded, start, self._descent(start))  # type: ignore[no-untyped-call]
        return Purification(self._clipped(self.cropped(output, images)), reconstruction)

    def _descent(self, start: Tensor) -> Descent:
        """What `unrolled` differentiates: itself if it is gradient descent, else its gradient-descent twin."""
        if self.solver == "gd":
            return Descent(self.problem, self.lr, self.schedule, self.steps)
        problem = LatentProblem(self.codec.decode, "sse", self.prior, self.read)
        rate = self.twin_lr or self._stable_rate(start)
        return Descent(problem, rate, "constant", self.steps, deployed=self._solved)

    def _stable_rate(self, start: Tensor) -> float:
        """The twin's rate, estimated once per shape at a fixed code: no image's gradient may depend on its batch."""
        key = (tuple(start.shape[1:]), start.dtype, str(start.device))
        known: dict[object, float] = self.__dict__.setdefault("_rates", {})
        if key not in known:
            problem = LatentProblem(self.codec.decode, "sse")
            known[key] = stable_rate(problem, torch.zeros_like(start[:1]))
        return known[key]

    def padded(self, images: Tensor) -> Tensor:
        """Images padded at the right and the bottom to a multiple of the VAE's stride."""
        expected = getattr(self.vae, "channels", images.shape[1])
        if images.shape[1] != expected:
            raise InputError(f"This VAE reads images of {expected} channels; these have {images.shape[1]}.")
        return padded_to(images, int(getattr(self.vae, "stride", 1)))

    @staticmethod
    def cropped(output: Tensor, images: Tensor) -> Tensor:
        """An output of padded images, without the padding."""
        return output[:, :, : images.shape[2], : images.shape[3]]
