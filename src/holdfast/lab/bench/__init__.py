"""Every figure that the project claims, measured: `holdfast bench`."""
