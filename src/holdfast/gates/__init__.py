"""Gates: what stands before the authority and may only say no."""
