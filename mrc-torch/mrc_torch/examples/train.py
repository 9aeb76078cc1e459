"""Train a small transformer on made-up sequences, data-parallel or sharded, as any PyTorch script does.

It knows nothing of mrc-torch: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are in the environment, as
torchrun sets them. Every rank prints a line of JSON per step: when it began and ended (ns of the monotonic
clock), and its loss, to the bit.
"""

import argparse
import json
import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

WORDS = 64
LENGTH = 16
WIDTH = 96


class Model(nn.Module):
    """Predict the next word of a sequence from those before."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.next = nn.Linear(WIDTH, WORDS)

    def forward(self, sequence: Tensor) -> Tensor:
        """Scores of all words at each place: (batch, place, word)."""
        mask = nn.Transformer.generate_square_subsequent_mask(sequence.shape[1])
        return self.next(self.layers(self.words(sequence) + self.places, mask=mask, is_causal=True))


def sequences(generator: torch.Generator, batch: int) -> Tensor:
    """Words that follow from the two before them: (batch, place)."""
    words = torch.randint(0, WORDS, (batch, LENGTH + 1), generator=generator)
    for place in range(2, LENGTH + 1):
        words[:, place] = (3 * words[:, place - 1] + 5 * words[:, place - 2] + 1) % WORDS
    return words


def sharded(model: Model) -> nn.Module:
    """The model, each layer in shards on all ranks."""
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (*model.layers.layers, model):
        fully_shard(layer, mesh=mesh)
    return model


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--backend", default=None)
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--batch", type=int, default=8, help="sequences of each rank and step")
    options.add_argument("--sharded", action="store_true", help="FSDP2 in place of DistributedDataParallel")
    options.add_argument("--pause-ms", type=float, default=0, help="computation that is not done, per step")
    given = options.parse_args()

    dist.init_process_group(given.backend)
    torch.manual_seed(1)
    model = sharded(Model()) if given.sharded else DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    generator = torch.Generator().manual_seed(100 + dist.get_rank())
    for step in range(given.steps):
        began_ns = time.monotonic_ns()
        words = sequences(generator, given.batch)
        time.sleep(given.pause_ms / 1000)
        scores = model(words[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ended_ns = time.monotonic_ns()
        print(
            json.dumps({"step": step, "began_ns": began_ns, "ended_ns": ended_ns, "loss": loss.item().hex()})
        )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
