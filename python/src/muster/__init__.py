"""Muster in Python. What there is, is in :mod:`muster.data`."""
