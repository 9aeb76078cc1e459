"""A headless Chromium, driven over a pipe by its own protocol: no driver program, no package, no port.

Source: Chrome DevTools Protocol 1.3; messages are JSON, each ended by a zero byte.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from waiting import DEADLINE_S

Scheme = Literal["light", "dark"]
Vision = Literal["none", "protanopia", "deuteranopia", "tritanopia", "achromatopsia"]

_KEYS: Final = {
    "Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39,
}  # fmt: skip
_OPTIONS: Final = (
    "--headless=new",
    "--no-sandbox",  # it refuses to have one as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


_PAGE_GONE: Final = (
    "Promise was collected",
    "Inspected target navigated or closed",
    "Execution context was destroyed.",
)


class _PageGoneError(Exception):
    """The page that an expression was for is there no more."""


class Browser:
    """The program, and one page of it; see `browsing`."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.console: list[str] = []  # texts of errors that the page put out, exceptions included
        self.requested: list[str] = []  # addresses that the page asked for
        self._to_browser = to_browser
        self._from_browser = from_browser
        self._received = b""
        self._last_id = 0
        self._session: str | None = None
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def open(self, url: str, *, width: int = 1280, height: int = 900, scheme: Scheme = "light") -> None:
        """Loads a page in a window of that size; returns when its scripts have run."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._ask("Emulation.setDeviceMetricsOverride", **size)
        self.emulate(scheme)
        self._ask("Page.navigate", url="about:blank")
        self._ask("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def emulate(self, scheme: Scheme, vision: Vision = "none", media: str = "") -> None:
        """Shows the page as with those settings; *media* `print` as on paper."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._ask("Emulation.setEmulatedMedia", media=media, features=features)
        self._ask("Emulation.setEmulatedVisionDeficiency", type=vision)

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression, promises awaited, as JSON value."""
        found = self._ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Returns when a JavaScript condition holds; looks again with every frame."""
        deadline_s = time.monotonic() + DEADLINE_S
        look = f"new Promise(done => requestAnimationFrame(() => done(Boolean({condition}))))"
        while not self._is_true(look):
            assert time.monotonic() < deadline_s, f"never came true: {condition}\n{self.console}"

    def _is_true(self, look: str) -> bool:
        """Return False also while one page gives way to the next."""
        try:
            return bool(self.value(look))
        except _PageGoneError:
            return False

    def click(self, selector: str) -> None:
        """Presses the mouse in the middle of an element, or of a path on it."""
        place = self.value(
            f"""(() => {{
                const element = document.querySelector({json.dumps(selector)});
                element.scrollIntoView({{ block: "center" }});
                if (element instanceof SVGGeometryElement) {{
                    const point = element.getPointAtLength(element.getTotalLength() / 2)
                        .matrixTransform(element.getScreenCTM());
                    return [point.x, point.y];
                }}
                const box = element.getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"""
        )
        for kind in ("mousePressed", "mouseReleased"):
            where = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
            self._ask("Input.dispatchMouseEvent", type=kind, **where)

    def press(self, key: str, *, times: int = 1) -> None:
        text = {"Enter": "\r", " ": " "}.get(key)
        for _ in range(times):
            named = {"key": key, "code": key if key != " " else "Space", "windowsVirtualKeyCode": _KEYS[key]}
            self._ask("Input.dispatchKeyEvent", type="keyDown", **named, **({"text": text} if text else {}))
            self._ask("Input.dispatchKeyEvent", type="keyUp", **named)

    def picture(self, path: Path, *, selector: str | None = None, quality: int | None = None) -> None:
        """Saves what the window shows, or all of an element, as PNG, or with *quality* as JPEG."""
        options: dict[str, Any] = {"format": "png"}
        if quality is not None:
            options = {"format": "jpeg", "quality": quality}
        if selector is not None:
            box = self.value(
                f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                " return [b.x + scrollX, b.y + scrollY, b.width, b.height]; })()"
            )
            clip = dict(zip(("x", "y", "width", "height"), box, strict=True)) | {"scale": 1}
            options |= {"clip": clip, "captureBeyondViewport": True}
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot", **options)["data"]))

    def close(self) -> None:
        self._session = None
        self._ask("Browser.close")

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next_message()
            if answer.get("id") == self._last_id:
                if answer.get("error", {}).get("message") in _PAGE_GONE:
                    raise _PageGoneError
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer.get("method", ""), answer.get("params", {}))

    def _note(self, event: str, reported: dict[str, Any]) -> None:
        match event:
            case "Network.requestWillBeSent":
                self.requested.append(reported["request"]["url"])
            case "Runtime.exceptionThrown":
                details = reported["exceptionDetails"]
                self.console.append(details.get("exception", {}).get("description", details["text"]))
            case "Runtime.consoleAPICalled" if reported["type"] in ("error", "assert"):
                self.console.append(" ".join(str(each.get("value")) for each in reported["args"]))
            case "Log.entryAdded" if reported["entry"]["level"] == "error":
                self.console.append(f"{reported['entry']['text']} {reported['entry'].get('url', '')}")

    def _next_message(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._from_browser], [], [], DEADLINE_S)
            assert ready, "Chromium does not answer"
            octets = os.read(self._from_browser, 1 << 20)
            assert octets, "Chromium has ended"
            self._received += octets
        message, _, self._received = self._received.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


def find_chromium() -> str:
    """The program; without it the test is skipped, in CI it fails."""
    for name in ("chromium", "chromium-browser"):
        path = shutil.which(name)
        if path is not None:
            return path
    return pytest.skip("needs chromium")


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser for as long as the context lasts; nothing of it stays."""
    program = find_chromium()
    commands_out, commands_in = os.pipe()
    events_out, events_in = os.pipe()
    profile = tempfile.mkdtemp(prefix="mrc-chromium-")
    line = [program, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
    # it reads commands from descriptor 3 and writes to descriptor 4
    shell = ["bash", "-c", f'exec "$@" 3<&{commands_out} 4>&{events_in}', "bash", *line]
    try:
        with subprocess.Popen(
            shell,
            pass_fds=(commands_out, events_in),
            env=os.environ | {"HOME": profile},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            os.close(commands_out)
            os.close(events_in)
            try:
                browser = Browser(commands_in, events_out)
                yield browser
                browser.close()
                process.wait(DEADLINE_S)
            finally:
                process.kill()
    finally:
        os.close(commands_in)
        os.close(events_out)
        shutil.rmtree(profile, ignore_errors=True)  # its crash handler may still be writing there
