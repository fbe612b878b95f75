"""Measurements, side by side in one run on one machine: read the ratios, not the figures."""
