"""A gateway's metrics as a program reads them, and a real Prometheus (Debian's package `prometheus`)."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.servers import free_port
from tests.support.waiting import PATIENCE, wait_until

PROMETHEUS = shutil.which("prometheus")
PROMTOOL = shutil.which("promtool")
NOT_HERE = "Prometheus is not installed: apt-get install prometheus"


class Scrape:
    """One scrape."""

    def __init__(self, client: httpx.Client) -> None:
        response = client.get("/metrics")
        assert response.status_code == 200, response.text
        self.text = response.text
        self._samples = [one for family in text_string_to_metric_families(self.text) for one in family.samples]

    def sum(self, name: str, **labels: str) -> float:
        """The sum of all samples of this name that have these labels."""
        return sum(
            one.value for one in self._samples if one.name == name and labels.items() <= dict(one.labels).items()
        )


class Prometheus:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def get(self, path: str, **query: str) -> Any:
        """The data of one call of its API."""
        with urllib.request.urlopen(
            f"{self._url}/{path}?{urllib.parse.urlencode(query)}", timeout=PATIENCE
        ) as response:
            found = json.load(response)
        assert found["status"] == "success", found
        return found["data"]

    def result(self, expression: str) -> Any:
        """The result of an expression."""
        return self.get("query", query=expression)["result"]

    def answers(self) -> bool:
        """Whether it is up."""
        try:
            return bool(self.get("status/buildinfo"))
        except OSError:
            return False


@contextmanager
def prometheus(folder: Path, config: str) -> Iterator[Prometheus]:
    """A Prometheus with this configuration, whose data lies in `folder`."""
    assert PROMETHEUS is not None
    file, port = folder / "prometheus.yml", free_port()
    file.write_text(config, encoding="utf-8")
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={file}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    try:
        one = Prometheus(port)
        wait_until(one.answers, "prometheus is up")
        yield one
    finally:
        process.terminate()
        process.wait(PATIENCE)
