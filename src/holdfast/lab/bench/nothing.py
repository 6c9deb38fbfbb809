"""Falcon handlers that do nothing with what they are asked: one takes the JSON that it is sent, as
any handler of such a request does, the other does not even do that. They know nothing of Holdfast:
any server can serve them."""

import falcon.asgi


class Nothing:
    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        await req.get_media()
        resp.media = {}


class Deaf:
    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.data = b"{}"


# Servers look for it by its name in the module.
app: falcon.asgi.App = falcon.asgi.App()  # type: ignore[type-arg]  # Falcon's own
app.add_route("/nothing", Nothing())
app.add_route("/deaf", Deaf())
