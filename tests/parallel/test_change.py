"""A rank that turns slower in mid run, over real MPI and Horovod, on EMULATED devices that cost 5 ms a sample."""

import torch
from ranks import parallel
from test_loader import Numbers, lin_optimizer

import chronica_hvd as chronica

SLOWER, BACK, STEPS = 40, 80, 120


@parallel(2, timeout=120, CHRONICA_DEVICE_COST="5e-3")
def test_three_times_slower_is_balanced_within_ten_steps_and_back_again():
    chronica.init()
    loader = chronica.DataLoader(Numbers(32 * STEPS), 32)
    optimizer, weight = lin_optimizer()
    device, mine = loader.session.stopwatch.device, []
    for step, batch in enumerate(loader):
        if chronica.rank() == 1:
            device.slow = 3.0 if SLOWER <= step < BACK else 1.0
        mine.append(len(batch))
        optimizer.zero_grad()
        ((weight * batch) ** 2).mean().backward()
        optimizer.step()
    span = torch.tensor(mine) if chronica.rank() == 0 else 32 - torch.tensor(mine)  # samples of rank 0
    alike, slowed, again = span[SLOWER - 20 : SLOWER], span[SLOWER + 10 : BACK], span[BACK + 10 :]
    assert (alike - 16).abs().float().mean() <= 2, alike
    assert (slowed - 24).abs().float().mean() <= 1.2, slowed  # 24 to 8 is the best; one more is 5 %
    assert (again - 16).abs().float().mean() <= 2, again
