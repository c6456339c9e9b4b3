"""How many requests may be on their way to one server: fewer once it says that it is busy, more again as it answers.

Here belongs the counting alone; when to try again stands in ``server_http``.
"""

import threading
from types import TracebackType


class Gate:
    """Lets so many in at once. Safe to use from several threads.

    Each word of a busy server halves the width, down to one; as many answers in a row as the gate is wide give one more.
    """

    def __init__(self, width: int) -> None:
        self._most = self._width = width
        self._inside = self._answers = 0
        self._changed = threading.Condition()

    @property
    def width(self) -> int:
        """How many may be inside now."""
        return self._width

    def __enter__(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._inside < self._width)
            self._inside += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify()

    def busy(self) -> None:
        """The server asked for less."""
        with self._changed:
            self._width, self._answers = max(1, self._width // 2), 0

    def answered(self) -> None:
        """The server answered well."""
        with self._changed:
            self._answers += 1
            if self._answers >= self._width < self._most:
                self._width, self._answers = self._width + 1, 0
                self._changed.notify()
