"""Runs of the lab that a service performs when it is asked to: /v1/lab/runs, and the page /lab."""
