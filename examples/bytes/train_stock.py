"""Stock Horovod: equal counts of functions on every rank. Compare with train_chronica.py."""

import horovod.torch as hvd
import torch
from job import Job, StockTrace, arguments
from model import ByteModel, pack

import chronica_hvd as chronica
from chronica_hvd.train import emulate, session

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

device = emulate.attach(optimizer)
trace = StockTrace(job, device)
for epoch in range(args.epochs):
    sampler.set_epoch(epoch)
    for step, (contexts, targets) in enumerate(job.epoch(loader)):
        device.begin(len(targets))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(contexts), targets).backward()
        optimizer.step()
        trace.step(epoch, step, args.batch // hvd.size(), len(targets))
trace.write(session.current().ranks, emulate.any_emulated())
job.finish(model)
