"""chronica_hvd: the ranks' parts follow their measured speed. Changed lines against train_stock.py are marked."""

import torch
from check import gradient_errors
from job import Job, arguments
from model import ByteModel, pack

import chronica_hvd as chronica  # chronica:

args = arguments(__doc__)
chronica.init()  # chronica:
torch.manual_seed(0)
job = Job("chronica_hvd", args)

sizes = job.data.sizes  # chronica: how much work each sample is; the batch is the global one, without a sampler
loader = chronica.DataLoader(job.data, args.batch, sizes, weight="size", collate_fn=pack, trace=args.trace)  # chronica:
model = ByteModel()
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
optimizer = chronica.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())  # chronica:
chronica.broadcast_parameters(model.state_dict(), root_rank=0)  # chronica:

for _epoch in range(args.epochs):
    for contexts, targets in job.epoch(loader):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(contexts), targets).backward()
        optimizer.step()
job.report |= gradient_errors(job.comm, loader, model, optimizer)
job.finish(model)
