"""The classifier that reads an inner decoder layer: code -> features -> logits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from alu import models
from alu.errors import UsageError
from alu.purifiers import InnerVAE
from tests.contracts.parts import images_like
from tests.toys import small_asymmetric


def test_logits_by_hand() -> None:
    model, images = small_asymmetric(), images_like(3, (3, 16, 16))
    with torch.no_grad():
        code, _ = model.vae.encode(images)
        features = model.vae.decoder[5](model.vae.decoder[4](model.vae.decoder[3](
            model.vae.decoder[2](model.vae.decoder[1](model.vae.decoder[0](code))))))  # fmt: skip
        assert features.shape == (3, 8, 8, 8)
        assert torch.equal(model(images), model.head(features))
        assert torch.equal(model(features), model.head(features))
        # The features are what the rest of the decoder makes the image from.
        rest = model.vae.decoder[7](model.vae.decoder[6](features))
        assert torch.equal(torch.sigmoid(4 * rest), model.decode(code))


def test_a_card_brings_it_back(tmp_path: Path) -> None:
    model, images = small_asymmetric(), images_like(2, (3, 16, 16))
    card = models.Card("inner", "classifier", model.architecture, "nothing", "none", "this test", "MIT", "")  # type: ignore[arg-type]
    again = models.load_file(models.save(model, card, tmp_path))
    with torch.no_grad():
        torch.testing.assert_close(again(images), model(images))
    assert not any(weight.requires_grad for weight in again.vae.parameters())  # type: ignore[union-attr]


def test_other_networks_are_refused() -> None:
    with pytest.raises(UsageError, match="Use LatentVAE"):
        InnerVAE(models.vae(latent=4, width=8))
    with pytest.raises(UsageError, match="wider VAE"):
        models.asymmetric(channels=3, vae_width=6)
