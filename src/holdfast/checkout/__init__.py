"""From a hold to a paid order."""
