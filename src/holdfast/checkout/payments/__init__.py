"""Those who move the money, each behind the port `Provider`."""
