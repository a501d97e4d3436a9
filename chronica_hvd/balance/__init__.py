"""Balance strategies by name: one paper one file, every one a frozen dataclass with ``init``, ``plan``, ``observe``."""

from __future__ import annotations

from .boa import Boa
from .chronica import Chronica
from .ep4ddl import Ep4ddl
from .even import Even
from .lb_bsp import LbBsp

STRATEGIES: dict[str, type] = {"even": Even, "lb_bsp": LbBsp, "boa": Boa, "ep4ddl": Ep4ddl, "chronica": Chronica}


def make(strategy="chronica", **settings):
    """A ready strategy from a name of ``STRATEGIES`` and its settings, or the user's own object as it is.

    Raises ValueError for a name that is not there, TypeError for settings beside a ready object or unknown to it.
    """
    if not isinstance(strategy, str):
        missing = [name for name in ("window", "init", "plan", "observe") if not hasattr(strategy, name)]
        if missing or settings:
            raise TypeError(
                f"a strategy is a name ({', '.join(STRATEGIES)}) with settings, or an object with window, init, plan "
                f"and observe; got {strategy!r} without {missing} and with settings {settings}"
            )
        return strategy
    if strategy not in STRATEGIES:
        raise ValueError(f"unknown strategy {strategy!r}; choose one of {', '.join(STRATEGIES)} or pass an object")
    return STRATEGIES[strategy](**settings)
