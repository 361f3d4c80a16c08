"""The Kubernetes manifests: the processes of the Procfile, probed, with least rights, and in step with the compose file."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from bus.config.settings import OTHER_VARIABLES, VARIABLES, Settings
from tests.support.kubernetes_schema import schema_problems
from tests.support.manifests import COMMANDS, compose, deployments, objects

pytestmark = pytest.mark.req("B-05", "B-07")

DEPLOYMENTS = {one["metadata"]["name"].removeprefix("fleethook-"): one for one in deployments()}
KINDS = [kind for kind in COMMANDS if kind != "host"]  # no agent runs in a pod


def pod(kind: str) -> dict[str, Any]:
    spec: dict[str, Any] = DEPLOYMENTS[kind]["spec"]["template"]["spec"]
    return spec


def container(kind: str) -> dict[str, Any]:
    (one,) = pod(kind)["containers"]
    assert isinstance(one, dict)
    return one


def named(kind: str, name: str = "fleethook") -> dict[str, Any]:
    (one,) = [one for one in objects() if one["kind"] == kind and one["metadata"]["name"] == name]
    return one


def test_each_process_of_the_procfile_is_a_deployment() -> None:
    assert list(DEPLOYMENTS) == KINDS
    services = compose()["services"]
    for kind in KINDS:
        assert container(kind)["args"] == COMMANDS[kind].split()[1:] == services[kind]["command"]
        assert container(kind)["image"] == services[kind]["image"]
        assert f"{pod(kind)['terminationGracePeriodSeconds']}s" == services[kind]["stop_grace_period"]
        labels = DEPLOYMENTS[kind]["spec"]["template"]["metadata"]["labels"]
        assert DEPLOYMENTS[kind]["spec"]["selector"]["matchLabels"] == labels, "each selects its own pods alone"
        assert labels["app.kubernetes.io/component"] == kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_pod_has_least_rights(kind: str) -> None:
    spec, one = pod(kind), container(kind)
    user = compose()["services"][kind]["user"]
    assert f"{spec['securityContext']['runAsUser']}:{spec['securityContext']['runAsGroup']}" == user
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "ports" not in one
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    mounts = {mount["name"]: mount for mount in one["volumeMounts"]}
    assert set(mounts) == set(volumes)
    assert {name for name, volume in volumes.items() if "emptyDir" in volume} == {"home", "tmp"}
    assert mounts["files"]["readOnly"] is True


@pytest.mark.parametrize("kind", KINDS)
def test_settings_come_from_the_config_map_and_the_url_from_the_secret(kind: str) -> None:
    assert "env" not in container(kind)
    assert container(kind)["envFrom"] == [{"configMapRef": {"name": "fleethook"}}, {"secretRef": {"name": "fleethook"}}]
    settings = named("ConfigMap")
    assert settings["metadata"]["name"] == "fleethook"
    assert set(settings["data"]) <= {*VARIABLES, *OTHER_VARIABLES}, "each is a setting that exists"
    assert not {"FLEETHOOK_REDIS_URL", "FLEETHOOK_RQ_URL", "FLEETHOOK_HOST"} & set(settings["data"])
    mount = next(one["mountPath"] for one in container(kind)["volumeMounts"] if one["name"] == "files")
    assert settings["data"]["FLEETHOOK_SECRET_KEY_FILE"] == f"{mount}/secret.key"
    assert "Secret" not in {one["kind"] for one in objects()}, "a secret in a file would be applied as it is"


def test_nobody_reaches_a_worker_and_workers_reach_no_private_address() -> None:
    policy = named("NetworkPolicy")["spec"]
    labels = policy["podSelector"]["matchLabels"]
    assert all(labels.items() <= one["spec"]["template"]["metadata"]["labels"].items() for one in DEPLOYMENTS.values())
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == []
    names, server, webhooks = policy["egress"]
    assert {port["port"] for port in names["ports"]} == {53}
    assert [port["port"] for port in server["ports"]] == [6379]
    closed = [block["ipBlock"]["except"] for block in webhooks["to"]]
    assert "169.254.0.0/16" in closed[0], "metadata services"
    assert named("ServiceAccount")["automountServiceAccountToken"] is False


def test_the_schema_of_kubernetes_accepts_every_object() -> None:
    """Issue 11: unknown fields, missing ones and wrong types are found without a cluster and without kubectl."""
    assert not [problem for manifest in objects() for problem in schema_problems(manifest)]


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("replicas", "two", "Deployment.spec.replicas: 'two' is not of the type"),
        ("replica", 2, "Deployment.spec.replica: there is no such field"),
        ("selector", None, "Deployment.spec.selector"),
        ("template", {"spec": {}}, "Deployment.spec.template.spec.containers is missing"),
    ],
)
def test_a_wrong_manifest_is_found(field: str, value: object, problem: str) -> None:
    manifest = copy.deepcopy(DEPLOYMENTS["evaluator"])
    manifest["spec"][field] = value
    if value is None:
        del manifest["spec"][field]
    (found,) = schema_problems(manifest)
    assert found.startswith(problem)


def test_pods_of_the_namespace_may_reach_the_gateway() -> None:
    policy = named("NetworkPolicy", "fleethook-gateway")["spec"]
    assert policy["podSelector"]["matchLabels"] == DEPLOYMENTS["gateway"]["spec"]["template"]["metadata"]["labels"]
    (rule,) = policy["ingress"]
    assert [opened["port"] for opened in rule["ports"]] == [Settings().gateway_port]
    assert rule["from"] == [{"podSelector": {}}]
    settings = named("ConfigMap")["data"]
    assert settings["FLEETHOOK_GATEWAY_HOST"] == "0.0.0.0"
    assert settings["FLEETHOOK_GATEWAY_NAMES"] == "fleethook-gateway", "the name by which pods call it"
