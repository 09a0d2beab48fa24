"""Somebody's own classifier: a small CNN for Fashion-MNIST that knows nothing of alu."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

WEIGHTS = Path(__file__).parent / "small_cnn.safetensors"


def block(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]


class SmallCNN(nn.Module):
    """Five convolutions and a linear layer; images [N, 1, 28, 28] in [0, 1] to logits [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *block(1, 24),
            *block(24, 24),
            nn.MaxPool2d(2),
            *block(24, 48),
            *block(48, 48),
            nn.MaxPool2d(2),
            *block(48, 96),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
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


def train(images: Tensor, labels: Tensor, epochs: int = 10, batch: int = 128) -> nn.Module:
    """Train it on clean images the plain way."""
    torch.manual_seed(0)
    model = SmallCNN().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
    steps = epochs * (len(images) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=steps)
    for _ in range(epochs):
        order = torch.randperm(len(images))
        for start in range(0, len(images) - batch + 1, batch):
            chosen = order[start : start + batch]
            loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.to(memory_format=torch.contiguous_format).eval()
