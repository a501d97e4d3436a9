"""A small byte-level language model: each byte is predicted from the eight before it."""

from __future__ import annotations

import numpy as np
import torch

CONTEXT = 8  # bytes seen before the one that is predicted; zeros before a function's start


def pack(texts: list[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """Contexts (bytes, CONTEXT) uint8 and targets (bytes,) int64 of all functions of a batch, without padding."""
    padded = [np.concatenate([np.zeros(CONTEXT, np.uint8), text]) for text in texts]
    contexts = [np.lib.stride_tricks.sliding_window_view(text, CONTEXT)[:-1] for text in padded]
    return torch.from_numpy(np.concatenate(contexts)), torch.from_numpy(np.concatenate(texts)).long()


class ByteModel(torch.nn.Module):
    """Embedding, one hidden layer, a distribution over the next byte; 23,000 parameters."""

    def __init__(self, width: int = 8, hidden: int = 64):
        super().__init__()
        self.embed = torch.nn.Embedding(256, width)
        self.mix = torch.nn.Linear(CONTEXT * width, hidden)
        self.out = torch.nn.Linear(hidden, 256)

    def forward(self, contexts: torch.Tensor) -> torch.Tensor:
        """Logits (bytes, 256)."""
        return self.out(torch.relu(self.mix(self.embed(contexts.int()).flatten(1))))
