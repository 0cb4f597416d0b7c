"""All-reduce training with PyTorch: every rank averages gradients with gloo.

torch.distributed reads MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK, which
Muster sets. The data is made here: a linear model must be found again.
"""

import os

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    truth = torch.tensor([2.0, -3.0, 0.5])
    weights = torch.zeros(3, requires_grad=True)
    for step in range(200):
        x = torch.randn(64, 3)
        loss = ((x @ weights - x @ truth) ** 2).mean()
        loss.backward()
        dist.all_reduce(weights.grad)
        with torch.no_grad():
            weights -= 0.05 * weights.grad / world
            weights.grad.zero_()
    error = (weights.detach() - truth).abs().max().item()
    print(f"rank {rank} of {world} on {os.uname().nodename}: error {error:.5f}", flush=True)
    assert error < 0.01, "the ranks did not agree on the model"
    dist.barrier()


if __name__ == "__main__":
    main()
