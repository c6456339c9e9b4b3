"""Which storage account of Azure is read, at which address, and as whom.

This is the one module of the adapters that reads the environment: the SDK of Azure, unlike the other clouds', leaves the
variables of Azure's own command line to its caller. Secrets come from nowhere else, and stand in no message.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from allocation.errors import AdapterError, MissingExtraError, SourceUnavailableError
from billing_adapters.object_store import host_of

try:
    from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
    from azure.identity import DefaultAzureCredential
except ModuleNotFoundError as error:
    raise MissingExtraError("azure-storage-blob", "azure") from error

CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"
ACCOUNT = "AZURE_STORAGE_ACCOUNT"
KEY = "AZURE_STORAGE_KEY"
SAS = "AZURE_STORAGE_SAS_TOKEN"
IDENTITY = "AZURE_CLIENT_ID"

_CLOUDS = r"core\.(windows\.net|usgovcloudapi\.net|chinacloudapi\.cn)"
_OF_ACCOUNT = re.compile(rf"([a-z0-9]{{3,24}})\.(?:blob|dfs)\.{_CLOUDS}")
_OWN_HOST = re.compile(rf"([a-z0-9]{{3,24}})(?:-secondary)?\.(?:blob\.{_CLOUDS}|z\d+\.blob\.storage\.azure\.net)")


@dataclass(frozen=True)
class Account:
    """An account's name and address, its credential, and the variable that this comes from."""

    name: str | None
    url: str
    credential: Any = field(repr=False)
    source: str


def account_of(path: str, told: str, endpoint_url: str | None) -> Account:
    """The account of a path; ``told`` is the host that stands in it, or empty.

    A variable that belongs to another account is passed over.

    Raises:
        AdapterError: path and endpoint contradict each other.
        SourceUnavailableError: no account is named, or there are no credentials for it.
    """
    return chosen(path, told, endpoint_url, os.environ)


def chosen(path: str, told: str, endpoint_url: str | None, env: Mapping[str, str]) -> Account:
    """The same by the given environment."""
    connection = _connection(path, env.get(CONNECTION, ""))
    in_path = _name_in(path, told)
    named = in_path[0] or connection.get("accountname") or env.get(ACCOUNT)
    url = (
        endpoint_url
        or in_path[1]
        or connection.get("blobendpoint")
        or _usual(connection)
        or _usual({"accountname": env.get(ACCOUNT, "")})
    )
    if not url:
        remedy = "Write abfss://container@ACCOUNT.dfs.core.windows.net/prefix, or set billing.endpoint_url to the account's."
        raise SourceUnavailableError(path, "no storage account is named", setting=f"billing.path or {ACCOUNT}", remedy=remedy)
    name = _name_at(url) or named
    if in_path[0] and name != in_path[0]:
        raise AdapterError(f"{path}: names another account than billing.endpoint_url, {name!r}", remedy="Correct one of them.")
    return Account(name, url.rstrip("/"), *_credential(path, name, url, connection, env))


def _credential(path: str, name: str | None, url: str, connection: Mapping[str, str], env: Mapping[str, str]) -> tuple[Any, str]:
    """What signs requests, and the variable that it comes from; without any, the identity of the SDK's own chain."""
    if name and name == (connection.get("accountname") or _name_at(connection.get("blobendpoint", ""))):
        if connection.get("accountkey"):
            return AzureNamedKeyCredential(name, connection["accountkey"]), CONNECTION
        if connection.get("sharedaccesssignature"):
            return AzureSasCredential(connection["sharedaccesssignature"]), CONNECTION
    if env.get(ACCOUNT) in (None, "", name):
        if env.get(KEY) and name:
            return AzureNamedKeyCredential(name, env[KEY]), KEY
        if env.get(SAS):
            return AzureSasCredential(env[SAS].lstrip("?")), SAS
    if not _OWN_HOST.fullmatch(host_of(url)):
        problem = f"there are no credentials for {url}; an identity's token is sent to Azure's own addresses only"
        raise SourceUnavailableError(path, problem, setting=f"{CONNECTION}, {KEY} or {SAS}")
    return DefaultAzureCredential(), IDENTITY


def _connection(path: str, text: str) -> dict[str, str]:
    """The parts of a connection string, by their names in lower case."""
    parts = [part.partition("=") for part in text.split(";") if part.strip()]
    if any(not equals for _, equals, _ in parts):
        raise SourceUnavailableError(path, "the connection string cannot be read", setting=CONNECTION)
    return {name.strip().lower(): value.strip() for name, _, value in parts}


def _usual(parts: Mapping[str, str]) -> str:
    """The address of an account that names none of its own."""
    name, suffix = parts.get("accountname"), parts.get("endpointsuffix") or "core.windows.net"
    return f"{parts.get('defaultendpointsprotocol') or 'https'}://{name}.blob.{suffix}" if name else ""


def _name_in(path: str, told: str) -> tuple[str, str]:
    """Account and address of the host that stands in a path."""
    match = _OF_ACCOUNT.fullmatch(told.lower())
    if told and match is None:
        problem = f"{path}: {told!r} is no host of a storage account"
        raise AdapterError(problem, remedy="Write abfss://container@ACCOUNT.dfs.core.windows.net/prefix.")
    return (match[1], f"https://{match[1]}.blob.core.{match[2]}") if match else ("", "")


def _name_at(url: str) -> str:
    """The account that an address names: by its host, or by its path where the host is a number or local."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    match = _OWN_HOST.fullmatch(host)
    if match:
        return match[1]
    local = host == "localhost" or re.fullmatch(r"[\d.]+|.*:.*", host) is not None
    return parts.path.strip("/").partition("/")[0] if local else ""
