"""Somebody's own classifier: a small CNN for Fashion-MNIST that knows nothing of alu."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

WEIGHTS = Path(__file__).parent / "small_cnn.safetensors"


class SmallCNN(nn.Module):
    """Two convolutions and two linear layers; images [N, 1, 28, 28] in [0, 1] to logits [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 24, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(48 * 7 * 7, 96),
            nn.ReLU(),
            nn.Linear(96, 10),
        )

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layers((images - 0.29) / 0.35)
        return logits


def build() -> nn.Module:
    """The trained classifier: what `--classifier small_cnn:build` calls."""
    model = SmallCNN()
    model.load_state_dict(load_file(WEIGHTS))
    return model.eval()


def train(images: Tensor, labels: Tensor, epochs: int = 4) -> nn.Module:
    """Train it on clean images the plain way."""
    torch.manual_seed(0)
    model = SmallCNN()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for chosen in torch.randperm(len(images)).split(128):
            loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()
