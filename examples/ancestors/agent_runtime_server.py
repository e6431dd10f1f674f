"""A WebSocket server for one graph agent, as written for the agent runtime. Only the import has changed.

uvicorn agent_runtime_server:app      then connect to ws://127.0.0.1:8000/ws
"""

from typing import Any

from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from fleetlore.compat.agent_runtime import Runtime

LISTENERS: list[dict[str, Any]] = []
"""What a page with the trace would get."""


async def serve_chat(ws: WebSocket) -> None:
    """One conversation; `user_claims` would come from a verified token."""
    await ws.accept()
    runtime = Runtime(ws, user_claims={"name": "Ann"}, origin="example", broadcast=LISTENERS.append)
    try:
        while True:
            message = await ws.receive_json()
            if message.get("type") == "action":
                await runtime.handle_action(message["action"], message.get("data"))
            else:
                await runtime.handle_message(message["text"], dashboard=message.get("dashboard"))
    except WebSocketDisconnect:
        await runtime.close()


app = Starlette(routes=[WebSocketRoute("/ws", serve_chat)])
