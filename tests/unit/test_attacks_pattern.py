"""Pattern: the paper's case 3 on purpose."""

from __future__ import annotations

import torch

from alu.attacks import adaptive
from alu.attacks.goals import fooled
from tests.toys import quick_attack, toy_data, toy_defense


def test_case_three_by_hand() -> None:
    clean = torch.tensor([[2.0, 1.0, 0.0]] * 3)
    attacked = torch.tensor([[2.5, 4.0, 0.0], [1.5, 4.0, 0.0], [5.0, 4.0, 0.0]])
    rare = adaptive.case_three(clean, attacked, torch.tensor([0, 0, 0]))
    assert rare.tolist() == [True, False, False]


def test_pattern_holds_the_true_logit() -> None:
    defense, data = toy_defense(), toy_data(10)
    attack = quick_attack("Pattern", eps=0.3, steps=20, penalties=(100.0,), targets=1)
    adversarial = attack(defense, data.images, data.labels)
    before, after = defense.logits(data.images).detach(), defense.logits(adversarial).detach()
    moved = (adversarial - data.images).abs().flatten(1).amax(1) > 0
    kept = after.gather(1, data.labels[:, None]) >= before.gather(1, data.labels[:, None])
    assert int(kept[moved].sum()) >= 0.8 * int(moved.sum())


def test_pattern_prefers_its_case_to_another_wrong_answer() -> None:
    defense, data = toy_defense(), toy_data(24)
    attack = quick_attack("Pattern", eps=0.2, steps=12)
    first = ~fooled(defense, data.images, data.labels)
    images, labels = data.images[first], data.labels[first]
    clean = defense.logits(images).detach()
    tried = [search(defense, images, labels) for search in attack.tries(defense)]
    wrong = torch.stack([fooled(defense, each, labels) for each in tried])
    rare = torch.stack([adaptive.case_three(clean, defense.logits(each).detach(), labels) for each in tried])
    assert bool((wrong & ~rare)[:, (wrong & rare).any(0)].any()), "a try must be wrong in another case to mean anything"
    adversarial = attack(defense, images, labels)
    kept = adaptive.case_three(clean, defense.logits(adversarial).detach(), labels)
    assert torch.equal(fooled(defense, adversarial, labels), wrong.any(0))
    assert torch.equal(kept & wrong.any(0), (wrong & rare).any(0))
