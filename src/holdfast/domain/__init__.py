"""The pure core: no await, no clock, no driver, no randomness."""
