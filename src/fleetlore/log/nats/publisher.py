"""Publishes messages on plain subjects, without a stream: for servers that have no JetStream, too."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from nats.aio.client import Client

from fleetlore.errors import Unreachable
from fleetlore.log.nats.client import close_client, drop_transport, parse_address
from fleetlore.log.nats.errors import NATS_ERRORS, translate_error


class OutgoingMessage(NamedTuple):
    """One message."""

    subject: str
    payload: bytes
    id: str
    """Sent as `Nats-Msg-Id`, by which a stream on the subject stores it once."""


def publish_messages(url: str, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0) -> None:
    """Publish messages in order over a connection of their own, and return once the server has all of them.

    Raises `LogError` if that fails; then some may have been published.
    """
    asyncio.run(_publish_messages(url, messages, timeout))


async def _publish_messages(url: str, messages: Sequence[OutgoingMessage], seconds: float) -> None:
    address = parse_address(url)
    shown = ",".join(address.servers)
    client = Client()

    async def ignore_error(error: Exception) -> None:
        """Errors are raised by the calls; nats-py would print them, too."""

    try:
        async with asyncio.timeout(seconds):
            await client.connect(
                address.servers,
                user=address.user,
                password=address.password,
                token=address.token,
                allow_reconnect=False,
                connect_timeout=max(1, round(seconds)),
                max_reconnect_attempts=1,
                error_cb=ignore_error,
                name="fleetlore sink",
            )
            for message in messages:
                await client.publish(message.subject, message.payload, headers={"Nats-Msg-Id": message.id})
            # A message to oneself comes back after the server has handled those before it.
            inbox = client.new_inbox()
            echo = await client.subscribe(inbox)
            await client.publish(inbox)
            await echo.next_msg(timeout=seconds)
    except TimeoutError:
        raise Unreachable(f"{shown} does not answer within {seconds:g} s") from None
    except NATS_ERRORS as error:
        raise translate_error(shown, error) from error
    finally:
        await close_client(client)
        drop_transport(client)
