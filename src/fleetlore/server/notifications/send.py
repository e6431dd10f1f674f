"""Makes one attempt to send a notification: calls a webhook or runs a program.

Errors are returned, not raised. Error texts never contain the address, which may be secret.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from ipaddress import ip_address
from typing import NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from fleetlore import __version__
from fleetlore.server.notifications.bodies import Message, build_command, build_webhook_request, encode_notification
from fleetlore.server.notifications.rules import CommandTarget, Target, Webhook

TIMEOUT = 10.0
"""Seconds for a receiver to answer, or a program to end."""
LONGEST_REPLY = 65536
"""How many bytes of a response are read, so that the connection ends cleanly."""
_PASSING = frozenset((HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS))
"""Client errors that may pass, so a retry is useful."""


class SendResult(NamedTuple):
    """The result of one attempt."""

    error: str | None = None
    """What went wrong; `None` on success."""
    is_final: bool = False
    """Whether a retry is pointless."""
    wait: float | None = None
    """Seconds that the receiver asks to wait."""


def deliver_message(target: Target, message: Message, *, timeout: float = TIMEOUT) -> SendResult:
    """Send a notification and return the result."""
    if isinstance(target, Webhook):
        return _call_webhook(target, message, timeout)
    return _run_command(target, message, timeout)


# --- webhooks


def _make_opener(url: str) -> OpenerDirector:
    """An opener for web addresses only. Redirects are not followed: a notification is for the address in the rule."""
    proxies = ProxyHandler({}) if _is_loopback(_get_host(url)) else ProxyHandler()
    opener = OpenerDirector()
    for handler in (proxies, HTTPHandler(), HTTPSHandler(), HTTPDefaultErrorHandler(), HTTPErrorProcessor()):
        opener.add_handler(handler)
    return opener


def _is_loopback(host: str) -> bool:
    """Whether a host is this machine; no proxy is used for it."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _call_webhook(webhook: Webhook, message: Message, timeout: float) -> SendResult:
    call = build_webhook_request(webhook, message)
    headers = {"User-Agent": f"fleetlore/{__version__}", **call.headers}
    request = Request(webhook.url, data=call.body, headers=headers, method="POST")
    try:
        with _make_opener(webhook.url).open(request, timeout=timeout) as response:
            response.read(LONGEST_REPLY)
    except HTTPError as error:
        with error:
            return _describe_refusal(error)
    except (OSError, HTTPException, ValueError) as error:
        return SendResult(_describe_error(error, timeout))
    return SendResult()


def _describe_refusal(error: HTTPError) -> SendResult:
    code = error.code
    if 300 <= code < 400:
        host = _get_host(error.headers.get("Location") or "") or "nowhere"
        return SendResult(f"redirected to {host} ({code}), which is not followed; name the final address in the rule", is_final=True)
    wait = error.headers.get("Retry-After") or ""
    return SendResult(
        f"answered {_describe_status(code)}",
        is_final=code < 500 and code not in _PASSING,
        wait=float(wait) if wait.isascii() and wait.isdigit() and len(wait) < 6 else None,
    )


def _describe_status(code: int) -> str:
    """The status with the standard phrase: the receiver's own may be anything."""
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)


def _get_host(address: str) -> str:
    try:
        return (urlsplit(address).hostname or "").encode("ascii", "replace").decode() if address.isprintable() else ""
    except ValueError:
        return ""


def _describe_error(error: Exception, timeout: float) -> str:
    """Why there was no response, without the address, which exception texts may contain."""
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message}"
    if isinstance(cause, socket.gaierror):
        return "its host was not found"
    if isinstance(cause, OSError) and cause.strerror:
        return f"cannot be reached: {cause.strerror}"
    return f"broke off ({type(cause).__name__})"


# --- commands


def _run_command(command: CommandTarget, message: Message, timeout: float) -> SendResult:
    try:
        # A session of its own, so that everything it starts can be killed with it.
        process = subprocess.Popen(
            build_command(command, message),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        return SendResult(f"{command.shown} cannot be run: {error.strerror}", is_final=True)
    with process:
        try:
            process.communicate(encode_notification(message), timeout=timeout)
        except subprocess.TimeoutExpired:
            _kill_process(process)
            return SendResult(f"{command.shown} did not end within {timeout:g} s")
    code = process.returncode
    if code < 0:
        return SendResult(f"{command.shown} was ended by signal {-code}")
    return SendResult(f"{command.shown} ended with {code}") if code else SendResult()


def _kill_process(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
