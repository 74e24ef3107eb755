"""A slow HTTP server for a folder: ``python -m bench.stored.server``.

It prints its port once it listens, and exits at the end of its standard input.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from typing import Any

_web: Any = import_module("aiohttp.web")

_DELAY_SECONDS = 0.030


async def serve(folder: str) -> None:
    async def late(request: Any, handler: Any) -> Any:
        await asyncio.sleep(_DELAY_SECONDS)
        return await handler(request)

    application = _web.Application(middlewares=[_web.middleware(late)])
    application.router.add_static("/", folder)
    runner = _web.AppRunner(application, access_log=None)
    await runner.setup()
    site = _web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
