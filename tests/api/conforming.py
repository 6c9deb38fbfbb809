"""Every response of every test is checked against the OpenAPI document."""

import requests


def check_response(url: str, method: str, path: str, answer: requests.Response) -> None: ...
