"""Published strategies side by side, on the same ground: `holdfast lab`."""
