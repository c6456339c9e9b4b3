"""What each part of the configuration has in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the configuration; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
