"""Where facts go: each broker its file, all of them behind `ports.Broker`."""
