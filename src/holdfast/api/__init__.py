"""HTTP: routes, wire format, problems, who may call, and the processes that serve it."""
