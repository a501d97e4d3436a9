"""Stock Horovod: equal counts of functions on every rank. Compare with train_chronica.py."""

import horovod.torch as hvd
import torch
from job import Job, StockTrace, arguments
from model import ByteModel, pack

import chronica_hvd as chronica

args = arguments(__doc__)
chronica.init()  # for the emulated device and the trace alone; hvd.init() otherwise
torch.manual_seed(0)
job = Job("stock Horovod", args)

sampler = torch.utils.data.DistributedSampler(job.data, hvd.size(), hvd.rank())
loader = torch.utils.data.DataLoader(job.data, args.batch // hvd.size(), sampler=sampler, collate_fn=pack)
model = ByteModel()
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

trace = StockTrace(job, optimizer)
for epoch in range(args.epochs):
    sampler.set_epoch(epoch)
    for contexts, targets in job.epoch(trace.steps(epoch, loader)):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(contexts), targets).backward()
        optimizer.step()
trace.write()
job.finish(model)
