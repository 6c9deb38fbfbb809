"""The pages, as `make web` builds them from web/ into dist/ beside this file: found, and read into
memory once. How they are served is in api/pages.py."""
