"""Figures drawn from finished simulations only, with matplotlib (extra `plots`)."""
