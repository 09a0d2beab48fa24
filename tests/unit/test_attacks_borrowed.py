"""What is put around the attacks of other libraries."""

from __future__ import annotations

import torch

from alu.attacks.borrowed import with_progress


def test_progress_follows_the_images_still_under_attack() -> None:
    reports: list[tuple[int, int]] = []
    ask = with_progress(lambda images: images, 10, 100, 10, lambda done, total: reports.append((done, total)))
    ask(torch.zeros(10, 1))
    assert reports == [(0, 10)]
    for _ in range(50):
        ask(torch.zeros(2, 1))
    assert reports[-1] == (5, 10), "half of the way of the two that are left"
    ask(torch.zeros(10, 1))
    assert reports[-1] == (5, 10), "never back"
