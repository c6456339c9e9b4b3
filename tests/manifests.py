"""What ``deploy/`` holds, as documents, and the schemas of Kubernetes that they are held to."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate.utils as schemas
import yaml

Document = dict[str, Any]
DEPLOY = Path(__file__).parents[1] / "deploy"
FOLDER = DEPLOY / "kubernetes"
VALUES = "dagster-values.yaml"
VERSIONS = ("1.31", "1.34", "1.37")
"""Of Kubernetes: the oldest that is supported, one between, and the newest that the validator knows."""
DAGSTER_HOME = "/opt/dagster/dagster_home"
Invalid = schemas.ValidationError


def document(name: str) -> Document:
    """A file of ``deploy/kubernetes``."""
    loaded = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def pod_of(name: str) -> Document:
    """What the pods of a Job or of a CronJob are made from."""
    spec = document(name)["spec"]
    found = spec.get("jobTemplate", {"spec": spec})["spec"]["template"]["spec"]
    assert isinstance(found, dict)
    return found


def ensure_valid(manifest: Mapping[str, Any]) -> None:
    """Raises ``Invalid`` where a field is unknown, missing or of another type, in any of the versions."""
    for version in VERSIONS:
        schemas.validate(dict(manifest), version, strict=True)


def configuration(folder: Path) -> Path:
    """The configuration as a pod finds it."""
    path = folder / "chargeback.yaml"
    path.write_text(document("configuration.yaml")["data"]["chargeback.yaml"], encoding="utf-8")
    return path
