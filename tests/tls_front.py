"""Encryption in front of a server that was built without: accepts TLS on a port and passes bytes on."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.certificates import Certificates


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    target.close()


@contextmanager
def tls_front(socket: str, certificates: Certificates) -> Iterator[int]:
    """Yield a port of this computer that leads to a server's socket."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    ready, stop, port = threading.Event(), asyncio.Event(), 0
    loop = asyncio.new_event_loop()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, into = await asyncio.open_unix_connection(socket)
        await asyncio.gather(_pass_on(reader, into), _pass_on(behind, writer))

    async def serve() -> None:
        nonlocal port
        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield port
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
