"""The settings of a source of series: where it is, how to sign in, and what its series are called."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from pipelines.section import Section
from pipelines.values import DurationMs, ServerUrl


class SecretFromEnv(Section):
    """A secret by the name of the environment variable that holds it."""

    env: str


class BasicAuth(Section):
    """User name, and the variable that holds the password."""

    username: str
    password: SecretFromEnv


class Auth(Section):
    """How to sign in; at most one way. ``bearer_file`` is read again for every request."""

    basic: BasicAuth | None = None
    bearer: SecretFromEnv | None = None
    bearer_file: Path | None = None

    @model_validator(mode="after")
    def _one(self) -> "Auth":
        if sum(v is not None for v in (self.basic, self.bearer, self.bearer_file)) > 1:
            raise ValueError("choose one of basic, bearer, bearer_file")
        return self


class Tls(Section):
    """Certificates of a private authority."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    insecure_skip_verify: bool = False


class CustomSeries(Section):
    """One role of ``profile: custom``."""

    metric: str
    unit: Literal["bytes", "KiB", "MiB", "GiB", "KB", "MB", "GB"] = "bytes"
    level: Literal["container", "device"] = "container"
    includes_reserved: bool = False


class CustomLabels(Section):
    """Which label says what, in ``profile: custom``."""

    node: str = "node"
    gpu: str = "gpu_uuid"
    instance: str = "mig"
    profile: str = "mig_profile"
    model: str = "gpu_model"
    namespace: str = "namespace"
    pod: str = "pod"
    pod_uid: str = "uid"
    container: str = "container"


class CustomProfile(Section):
    """Series and labels of a source that no profile knows."""

    pod_memory: CustomSeries
    declared: CustomSeries | None = None
    used: CustomSeries | None = None
    free: CustomSeries | None = None
    reserved: CustomSeries | None = None
    total: CustomSeries | None = None
    labels: CustomLabels = CustomLabels()


class MetricsEntry(Section):
    """One source of series of a cluster."""

    kind: Literal["openmetrics", "prometheus", "victoriametrics", "parquet"]
    path: Path | str | None = None
    url: ServerUrl = None
    endpoint_url: str | None = None
    region: str | None = None
    profile: Literal["auto", "dcgm", "hami", "gke", "aws-container-insights", "runai", "amd", "nvidia-smi", "custom"] = "dcgm"
    custom: CustomProfile | None = None
    match: dict[str, str] = Field(default_factory=dict)
    auth: Auth = Auth()
    headers: dict[str, str | SecretFromEnv] = Field(default_factory=dict)
    tenant: str | SecretFromEnv | None = None
    tls: Tls = Tls()
    timeout: DurationMs = Field(default="60s", validate_default=True)
    chunk: DurationMs = Field(default="1h", validate_default=True)
    concurrency: int = Field(default=4, ge=1, le=64)
    nodes_per_shard: int = Field(default=16, ge=1)
    retries: int = Field(default=5, ge=0)

    @field_validator("path")
    @classmethod
    def _path_or_url(cls, path: Path | str | None) -> Path | str | None:
        """A text without a scheme is a path."""
        return Path(path) if isinstance(path, str) and "://" not in path else path

    @model_validator(mode="after")
    def _complete(self) -> "MetricsEntry":
        if self.kind == "openmetrics" and not isinstance(self.path, Path):
            raise ValueError("kind openmetrics needs `path`, a file on this machine")
        if self.kind == "parquet" and self.path is None:
            raise ValueError("kind parquet needs `path`: a file, a folder, or a URL such as s3://bucket/prefix")
        if self.kind == "prometheus" and self.url is None:
            raise ValueError("kind prometheus needs `url`, for example http://prometheus.monitoring:9090")
        if self.kind == "victoriametrics" and self.url is None:
            raise ValueError("kind victoriametrics needs `url`, for example http://victoria-metrics.monitoring:8428")
        if (self.profile == "custom") != (self.custom is not None):
            raise ValueError("`profile: custom` and the section `custom` go together")
        return self
