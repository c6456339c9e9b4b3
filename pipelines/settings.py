"""One YAML file and the environment into frozen settings; the only place that reads the environment.

Unknown keys are refused with the nearest known one. ``CHARGEBACK__POLICY__IDLE=separate`` overrides a value of the file.
Secrets never stand in the file: it names environment variables or files that hold them.
"""

import os
import types
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as EnvironmentSettingsError

from allocation.errors import SettingsError, nearest
from allocation.policy import HostPolicy, IdlePolicy, OverheadPolicy, Policy, StrandedPolicy, UnattributedPolicy
from billing_adapters.currencies import ensure_currency
from pipelines.billing_entries import BillingEntry
from pipelines.engine_settings import EngineEntry
from pipelines.metrics_entries import MetricsEntry, SecretFromEnv
from pipelines.owner_entries import OwnersEntry
from pipelines.section import Section
from pipelines.values import Bytes, ClusterName, DeviceBytes, DurationMs, GpuShare, Instant, ServerUrl

ENV_PREFIX = "CHARGEBACK__"


class NodeEntry(Section):
    """What the inventory's series do not say of a node. Without ``provider_id`` it completes the node of that name."""

    name: str
    provider_id: str | None = None
    instance_type: str | None = None
    gpus: int | None = Field(default=None, ge=1, le=1000)
    gpu_memory: DeviceBytes | None = None
    alive_from: Instant | None = Field(default=None, alias="from")
    alive_until: Instant | None = Field(default=None, alias="until")


class InstanceTypeEntry(Section):
    """What a machine type carries, where the catalogue does not know it or says it otherwise."""

    gpus: int = Field(ge=1, le=1000)
    gpu_memory: DeviceBytes


class ClusterEntry(Section):
    """One Kubernetes cluster."""

    name: ClusterName
    metrics: list[MetricsEntry]
    nodes: list[NodeEntry] = Field(default_factory=list)


class PolicyEntry(Section):
    """See ``allocation.policy``."""

    max_hold: DurationMs = Field(default="2m", validate_default=True)
    max_gap: DurationMs = Field(default="15m", validate_default=True)
    overhead: OverheadPolicy = "proportional"
    idle: IdlePolicy = "holder"
    stranded: StrandedPolicy = "separate"
    gpu_share: GpuShare = Field(default="1.0", validate_default=True)
    host: HostPolicy = "separate"
    min_coverage: float = Field(default=0.5, ge=0, le=1)
    reserved: dict[str, Bytes] = Field(default_factory=dict)
    unattributed: UnattributedPolicy = "out_of_scope"

    @model_validator(mode="after")
    def _ordered(self) -> "PolicyEntry":
        if self.max_hold <= 0 or self.max_hold > self.max_gap:
            raise ValueError("max_hold must be above 0 and at most max_gap")
        return self

    def policy(self) -> Policy:
        """The same choices as the method reads them."""
        return Policy(
            self.max_hold,
            self.max_gap,
            self.overhead,
            self.idle,
            self.stranded,
            self.gpu_share.default_ppb,
            self.min_coverage,
            dict(self.reserved),
            self.gpu_share.by_type,
            self.host,
            unattributed=self.unattributed,
        )


class StorageEntry(Section):
    """How to reach an object store that `output` names."""

    endpoint_url: str | None = None
    region: str | None = None


class PricesEntry(Section):
    """Google's list prices: in which folder they are kept, and after how long they are asked for again."""

    cache: Path = Path("prices")
    max_age: DurationMs = Field(default="7d", validate_default=True)
    currency: Annotated[str, AfterValidator(ensure_currency)] = "USD"
    endpoint_url: ServerUrl = None
    api_key: SecretFromEnv | None = None


class Settings(BaseSettings):
    """The whole configuration. Relative paths are already resolved against the file's folder."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix=ENV_PREFIX, env_nested_delimiter="__")

    version: Literal[1]
    output: str = Field(min_length=1)
    start: date | None = None
    clusters: list[ClusterEntry] = Field(min_length=1)
    billing: list[BillingEntry] = Field(min_length=1)
    policy: PolicyEntry = PolicyEntry()
    owners: OwnersEntry = OwnersEntry()
    storage: StorageEntry = StorageEntry()
    instance_types: dict[str, InstanceTypeEntry] = Field(default_factory=dict)
    prices: PricesEntry = PricesEntry()
    engine: EngineEntry = EngineEntry()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment goes before the file; nothing else is read."""
        assert isinstance(env_settings, EnvSettingsSource)  # noqa: S101
        return env_settings, init_settings

    @model_validator(mode="after")
    def _distinct(self) -> "Settings":
        names = [c.name for c in self.clusters]
        if len(set(names)) != len(names):
            raise ValueError("two clusters have one name")
        return self

    def cluster(self, name: str) -> ClusterEntry:
        """The cluster of that name, or a ``SettingsError``."""
        for cluster in self.clusters:
            if cluster.name == name:
                return cluster
        raise SettingsError(f"no cluster {name!r} in the configuration; {nearest(name, [c.name for c in self.clusters])}")


def secret(value: SecretFromEnv, *, setting: str) -> str:
    """What the named environment variable holds, or a ``SettingsError`` that names variable and setting."""
    held = os.environ.get(value.env)
    if not held:
        raise SettingsError(f"the environment variable {value.env!r} is not set, but {setting} names it")
    return held


def config_path_from_env() -> Path:
    """The configuration that ``CHARGEBACK_CONFIG`` names."""
    named = os.environ.get("CHARGEBACK_CONFIG")
    if not named:
        raise SettingsError("set CHARGEBACK_CONFIG to the path of the configuration file")
    return Path(named)


def java_home_from_env() -> Path | None:
    """The folder of Java that JAVA_HOME names, as Spark reads it."""
    named = os.environ.get("JAVA_HOME")
    return Path(named) if named else None


def load_settings(path: Path) -> Settings:
    """Settings from a YAML file and the environment, or a ``SettingsError`` that names file, key and nearest key."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not UTF-8 (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror}); name an existing configuration file") from error
    try:
        values = yaml.load(text, _UniqueKeys)  # noqa: S506
    except (yaml.YAMLError, ValueError) as error:
        raise SettingsError(f"{path}: is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: holds no settings; `gpu-chargeback init` writes an example")
    _check_environment()
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise SettingsError("\n".join(f"{path}: {_explain(e)}" for e in error.errors())) from error
    except EnvironmentSettingsError as error:
        raise SettingsError(f"the environment: {' '.join(str(error).split())}; nested values are JSON") from error
    except TypeError as error:
        raise SettingsError(f"{path}: keys must be words: {error}") from error
    return _resolved(settings, path.resolve().parent)


class _UniqueKeys(yaml.SafeLoader):
    """The safe loader, refusing a key that stands twice in one section: the first would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A section as a dictionary."""
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = str(key_node.value)
            if key in seen and key != "<<":
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _check_environment() -> None:
    """A misspelt section in the environment would be ignored by the settings library; here it is refused."""
    for name in os.environ:
        if name.startswith(ENV_PREFIX):
            section = name.removeprefix(ENV_PREFIX).split("__")[0].lower()
            if section not in Settings.model_fields:
                raise SettingsError(
                    f"environment variable {name}: unknown section {section!r}; {nearest(section, Settings.model_fields)}"
                )


def _explain(error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"]) or "settings"
    if error["type"] == "extra_forbidden":
        return f"unknown key {error['loc'][-1]!r} at {where}; {nearest(str(error['loc'][-1]), _keys_at(error['loc'][:-1]))}"
    if error["type"] == "missing":
        return f"{where} is missing"
    return f"{where}: {str(error['msg']).removeprefix('Value error, ')}"


def _keys_at(loc: tuple[int | str, ...]) -> list[str]:
    """The keys that the section at this place knows."""
    here: type[BaseModel] = Settings
    for part in loc:
        field = here.model_fields.get(str(part)) if isinstance(part, str) else None
        if field is None:
            continue
        model = _model_in(field.annotation)
        if model is None:
            return []
        here = model
    return [f.alias or name for name, f in here.model_fields.items()]


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (list, dict, Union, types.UnionType, Annotated):
        return next((m for m in map(_model_in, get_args(annotation)) if m), None)
    return None


def _resolved(settings: Settings, folder: Path) -> Settings:
    """The same settings with relative paths taken from the file's folder."""

    def place(path: Path | None) -> Path | None:
        return None if path is None else folder / path

    def text(path: str) -> str:
        return path if "://" in path else str(folder / path)

    def entry(m: MetricsEntry) -> MetricsEntry:
        auth = m.auth.model_copy(update={"bearer_file": place(m.auth.bearer_file)})
        tls = m.tls.model_copy(update={f: place(getattr(m.tls, f)) for f in ("ca_file", "cert_file", "key_file")})
        path = place(m.path) if isinstance(m.path, Path) else m.path
        return m.model_copy(update={"path": path, "auth": auth, "tls": tls})

    clusters = [c.model_copy(update={"metrics": [entry(m) for m in c.metrics]}) for c in settings.clusters]
    billing = [b.model_copy(update={"path": text(b.path)}) for b in settings.billing]
    mapping = settings.owners.mapping and settings.owners.mapping.model_copy(update={"path": place(settings.owners.mapping.path)})
    owners = settings.owners.model_copy(update={"mapping": mapping})
    output = text(settings.output)
    sources = [(f"clusters.{c.name}.metrics.path", str(m.path), "series") for c in clusters for m in c.metrics if m.path]
    for setting, path, what in [*((f"billing.{n}.path", b.path, "bills") for n, b in enumerate(billing)), *sources]:
        if "://" not in output + path and Path(output).resolve().is_relative_to(Path(path).resolve()):
            raise SettingsError(f"{setting} {path} holds the output folder {output}; keep {what} and tables apart")
    prices = settings.prices.model_copy(update={"cache": folder / settings.prices.cache})
    return settings.model_copy(
        update={"output": output, "clusters": clusters, "billing": billing, "owners": owners, "prices": prices}
    )


def day_start(day: date) -> datetime:
    """UTC midnight at which the day starts."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def days_between(first: date, until: date) -> list[date]:
    """Each UTC day from ``first`` (inclusive) to ``until`` (exclusive)."""
    return [first + timedelta(days=n) for n in range((until - first).days)]
