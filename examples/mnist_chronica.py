"""Handwritten digits with chronica_hvd: mnist_horovod.py with the lines marked `# chronica:` changed.

.venv/bin/chronica run -np 2 --slow 1:3 -- python examples/mnist_chronica.py
"""

import horovod.torch as hvd
import torch
from mnist_data import arguments, digits
from torch import nn

import chronica_hvd as chronica  # chronica: added

args = arguments(__doc__)
chronica.init()  # chronica: was hvd.init()
torch.manual_seed(0)
training, test = digits(args.data, args.limit)

loader = chronica.DataLoader(training, args.batch)  # chronica: the global batch, no sampler
model = nn.Sequential(
    nn.Conv2d(1, 16, 5, stride=2),
    nn.ReLU(),
    nn.Conv2d(16, 32, 5, stride=2),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(512, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
optimizer = chronica.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())  # chronica: was hvd.
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

for epoch in range(args.epochs):
    for images, labels in loader:  # chronica: no set_epoch, the loader counts epochs
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    images, labels = test[hvd.rank() :: hvd.size()]
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).sum().float()
    accuracy = hvd.allreduce(right, op=hvd.Sum, name="accuracy").item() / len(test)
    if hvd.rank() == 0:
        print(f"epoch {epoch + 1}: test accuracy {accuracy:.1%}", flush=True)
