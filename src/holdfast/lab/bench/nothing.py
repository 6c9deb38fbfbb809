"""A Falcon handler that does nothing. It knows nothing of Holdfast: any server can serve it."""

import falcon.asgi


class Nothing:
    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.data = b"{}"


# Servers look for it by its name in the module.
app: falcon.asgi.App = falcon.asgi.App()  # type: ignore[type-arg]  # Falcon's own
app.add_route("/nothing", Nothing())
