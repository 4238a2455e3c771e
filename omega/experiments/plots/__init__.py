"""Figures drawn from finished simulations only, with matplotlib (extra `plots`)."""

from importlib.util import find_spec

from omega.cellstate.errors import BadInput

if find_spec("matplotlib") is None:
    raise BadInput("figures need matplotlib; pip install 'omega-scheduler[plots]'")
