"""What each fault of BigQuery means: one clear line that names the place, the setting or the role, and what to do.

Here belongs nothing that asks BigQuery anything.
"""

import concurrent.futures
from dataclasses import dataclass

import requests
import urllib3
from google.api_core.exceptions import GoogleAPICallError, RetryError
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, RefreshError

from allocation.errors import AdapterError, ChargebackError, SourceUnavailableError
from billing_adapters.object_store import reason

FAULTS = (
    GoogleAPICallError,
    RetryError,
    GoogleAuthError,
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    concurrent.futures.TimeoutError,
    OSError,
)
"""What the SDK raises where a request fails."""

OVER_LIMIT = "bytesBilledLimitExceeded"

_CREDENTIALS = "GOOGLE_APPLICATION_CREDENTIALS"
_LOG_IN = "Name a key file there, run `gcloud auth application-default login`, or run where a service account is attached."
_QUOTAS = ("quotaExceeded", "rateLimitExceeded", "resourcesExceeded")
_PASSING = (408, 500, 502, 503, 504)
_DENIED, _REFUSED, _MISSING, _TOO_MANY = 403, 401, 404, 429


@dataclass(frozen=True)
class Asked:
    """What was asked of whom, for messages: the path of the bill, who pays, where, and another server than Google's."""

    url: str
    dataset: str
    payer: str
    location: str | None = None
    endpoint: str | None = None


def explained(error: Exception, asked: Asked) -> ChargebackError:
    """One clear line for what the SDK raised."""
    if isinstance(error, RetryError) and isinstance(error.cause, Exception):
        error = error.cause
    if isinstance(error, GoogleAPICallError):
        return _answered(error, asked)
    if isinstance(error, DefaultCredentialsError):
        return SourceUnavailableError(asked.url, _line(error), setting=_CREDENTIALS, remedy=_LOG_IN)
    if isinstance(error, RefreshError):
        return SourceUnavailableError(
            asked.url, f"the credentials are refused: {_line(error)}", setting=_CREDENTIALS, remedy=_LOG_IN
        )
    if isinstance(error, concurrent.futures.TimeoutError):
        return SourceUnavailableError(asked.url, "the query is not finished in time", setting="billing.path", remedy="Run again.")
    where, setting = (
        (f"{asked.url} at {asked.endpoint}", "billing.endpoint_url") if asked.endpoint else (asked.url, "billing.path")
    )
    return SourceUnavailableError(where, f"BigQuery cannot be reached or broke off: {reason(error)}", setting=setting)


def why(error: Exception) -> str:
    """BigQuery's own word for the fault, such as ``accessDenied``; empty where it has none."""
    if isinstance(error, RetryError) and isinstance(error.cause, Exception):
        error = error.cause
    told = getattr(error, "errors", None) or [{}]
    return str(told[0].get("reason", "")) if isinstance(told[0], dict) else ""


def _answered(error: GoogleAPICallError, asked: Asked) -> ChargebackError:
    said = _said(error)
    if why(error) in _QUOTAS or error.code == _TOO_MANY:
        problem = f"a quota of the project {asked.payer} is used up: {said}"
        remedy = "Run again later, raise the quota, or let another project pay (billing.query_project)."
        return SourceUnavailableError(asked.url, problem, setting="billing.query_project", remedy=remedy)
    if error.code == _REFUSED:
        return SourceUnavailableError(asked.url, f"the credentials are refused: {said}", setting=_CREDENTIALS, remedy=_LOG_IN)
    if error.code == _DENIED:
        return _denied(said, asked)
    if error.code == _MISSING:
        return _missing(said, asked)
    if error.code in _PASSING:
        problem = f"BigQuery answers {error.code}: {said}"
        return SourceUnavailableError(asked.url, problem, setting="billing.path", remedy="Run again.")
    return AdapterError(
        f"BigQuery refuses the query: {said}", file=asked.url, remedy="Check billing.path and billing.query_project."
    )


def _denied(said: str, asked: Asked) -> ChargebackError:
    """Which role is missing, and where."""
    setting = "billing.path"
    if "bigquery.jobs.create" in said:
        setting, remedy = "billing.query_project", f"Grant roles/bigquery.jobUser on the project {asked.payer}, which pays."
    elif "readsessions" in said:
        setting, remedy = "billing.query_project", f"Grant roles/bigquery.readSessionUser on the project {asked.payer}."
    else:
        remedy = f"Grant roles/bigquery.dataViewer on the dataset {asked.dataset}."
    return SourceUnavailableError(asked.url, f"access is denied: {said}", setting=setting, remedy=remedy)


def _missing(said: str, asked: Asked) -> ChargebackError:
    if "in location" in said:
        there = f"The dataset lies in {asked.location}: take" if asked.location else "Take"
        remedy = f"{there} billing.region out."
        return SourceUnavailableError(asked.url, f"the dataset is not there: {said}", setting="billing.region", remedy=remedy)
    what = "dataset" if "Dataset" in said else "project" if "Project" in said else "table"
    remedy = "Check the three parts of the name; Google makes the table some hours after the export was switched on."
    return SourceUnavailableError(asked.url, f"there is no such {what}", setting="billing.path", remedy=remedy)


def _said(error: GoogleAPICallError) -> str:
    """The server's own words on one line, without the address that was asked and the job's number."""
    told = [entry.get("message", "") for entry in error.errors or () if isinstance(entry, dict)]
    words: str = next(filter(None, told), error.message or type(error).__name__)
    return " ".join(words.split())


def _line(error: Exception) -> str:
    return " ".join(str(error.args[0] if error.args else error).split())
