"""MNIST with chronica_hvd: mnist_horovod.py for unequal machines. What differs is marked "chronica:".

chronica run -np 2 -- python examples/mnist_chronica.py
"""

import argparse

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from mnist_data import mnist
from torch import nn

import chronica_hvd as chronica  # chronica:

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", metavar="FOLDER", help="the four files of the full MNIST; else 5000 images")
parser.add_argument("--batch-size", type=int, default=32, help="images of one step on one rank")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=0.01, help="learning rate of one rank")
parser.add_argument("--momentum", type=float, default=0.5)
parser.add_argument("--seed", type=int, default=42)
args = parser.parse_args()

chronica.init()  # chronica: starts Horovod as well
torch.manual_seed(args.seed)
device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
training, test = mnist(args.data)

batch = args.batch_size * hvd.size()  # chronica: the global batch; each rank's part of it follows its speed
loader = chronica.DataLoader(training, batch, seed=args.seed)  # chronica: no sampler

model = nn.Sequential(
    nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(),
    nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
    nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, 10),
).to(device)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=args.momentum)
optimizer = chronica.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())  # chronica:
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

for epoch in range(args.epochs):
    model.train()
    for images, labels in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()

    model.eval()
    images, labels = test[hvd.rank() :: hvd.size()]  # each rank tests its own part
    with torch.no_grad():
        right = (model(images.to(device)).argmax(1).cpu() == labels).sum()
    accuracy = hvd.allreduce(right, op=hvd.Sum, name="right").item() / len(test)
    if hvd.rank() == 0:
        print(f"epoch {epoch}: loss {loss.item():.4f}, test accuracy {accuracy:.4f}", flush=True)
