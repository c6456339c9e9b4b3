"""A headless Chromium for tests of pages, spoken to in its own protocol over a pipe; nothing but the Debian package is needed."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_PATIENCE = 60.0


class Browser:
    """One page of a browser that is offline: requests are noted, and none but the file itself is answered."""

    def __init__(self) -> None:
        assert CHROMIUM
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        theirs, mine = os.pipe()
        answers, out = os.pipe()
        shell = f'exec "$0" "$@" 3<&{theirs} 4>&{out}'
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        flags += ["--no-first-run", "--disable-dev-shm-usage", f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", shell, CHROMIUM, *flags], pass_fds=(theirs, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs)
        os.close(out)
        self._mine, self._answers, self._held, self._number = mine, answers, b"", 0
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(20)
        os.close(self._mine)
        os.close(self._answers)
        self._folder.cleanup()

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Asks the browser, and keeps what it tells meanwhile."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": params}
        if session := getattr(self, "_session", None):
            asked["sessionId"] = session
        os.write(self._mine, json.dumps(asked).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._number:
                assert "error" not in told, (method, told["error"])
                return dict(told["result"])
            self.events.append(told)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._held:
            ready, _, _ = select.select([self._answers], [], [], _PATIENCE)
            assert ready, "the browser does not answer"
            read = os.read(self._answers, 1 << 20)
            assert read, "the browser has ended"
            self._held += read
        one, _, self._held = self._held.partition(b"\0")
        return dict(json.loads(one))

    def open(self, page: Path, width: int, height: int = 900) -> None:
        """Shows a page at a width, and waits for it."""
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=page.resolve().as_uri())
        end = time.monotonic() + _PATIENCE
        while not any(told.get("method") == "Page.loadEventFired" for told in self.events):
            assert time.monotonic() < end
            self.events.append(self._next())

    def value(self, script: str) -> Any:  # noqa: ANN401 -- whatever the script gives
        """What a script of the test gives; the page itself may run none."""
        told = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def complaints(self) -> list[str]:
        """What the console said, and what the page asked the network for beside itself."""
        spoken = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        said = [json.dumps(e["params"]) for e in self.events if e.get("method") in spoken]
        asked = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return said + asked[1:]

    def pdf(self) -> bytes:
        """The page as it prints."""
        return base64.b64decode(self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])

    def picture(self) -> bytes:
        """The whole page as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"])
