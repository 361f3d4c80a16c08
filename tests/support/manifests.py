"""The deployment files of the repository, parsed: the Procfile, compose and the Kubernetes manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "docker/kubernetes"
COMMANDS = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text("utf-8").splitlines())
"""The command of each process type, as the Procfile has it."""


def compose() -> dict[str, Any]:
    """The compose file."""
    value: dict[str, Any] = yaml.safe_load((ROOT / "docker/compose.yaml").read_text("utf-8"))
    return value


def objects() -> list[dict[str, Any]]:
    """Every Kubernetes object of the manifests, lists opened."""
    found: list[dict[str, Any]] = []
    for path in sorted(KUBERNETES.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text("utf-8")):
            found += document["items"] if document["kind"] == "List" else [document]
    return found


def deployments() -> list[dict[str, Any]]:
    """The Deployments among them."""
    return [one for one in objects() if one["kind"] == "Deployment"]
