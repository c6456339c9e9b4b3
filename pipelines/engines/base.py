"""What an engine does."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs one piece of work over many tasks. Work, tasks and results can be sent to another process."""

    def map(self, work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The results in the order of the tasks; tasks are taken as there is room for them, so they may still be coming."""
        ...

    def close(self) -> None:
        """Ends what the engine has started."""
        ...
