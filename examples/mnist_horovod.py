"""Handwritten digits with stock Horovod. See mnist_chronica.py for the few lines that change.

.venv/bin/chronica run -np 2 -- python examples/mnist_horovod.py
"""

import horovod.torch as hvd
import torch
from mnist_data import arguments, digits
from torch import nn

args = arguments(__doc__)
hvd.init()
torch.manual_seed(0)
training, test = digits(args.data, args.limit)

sampler = torch.utils.data.DistributedSampler(training, hvd.size(), hvd.rank())
loader = torch.utils.data.DataLoader(training, args.batch // hvd.size(), sampler=sampler)
model = nn.Sequential(
    nn.Conv2d(1, 16, 5, stride=2),
    nn.ReLU(),
    nn.Conv2d(16, 32, 5, stride=2),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(512, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

for epoch in range(args.epochs):
    sampler.set_epoch(epoch)
    for images, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    images, labels = test[hvd.rank() :: hvd.size()]
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).sum().float()
    accuracy = hvd.allreduce(right, op=hvd.Sum, name="accuracy").item() / len(test)
    if hvd.rank() == 0:
        print(f"epoch {epoch + 1}: test accuracy {accuracy:.1%}", flush=True)
