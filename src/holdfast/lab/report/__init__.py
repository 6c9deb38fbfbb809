"""What the lab found, as a page."""
