"""Facts by HTTP POST, to whoever subscribed: signed as Standard Webhooks says."""
