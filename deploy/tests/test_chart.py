"""Laws of the Helm chart. Helm comes from the Go module proxy: without Go, these tests say that they did not run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft202012Validator

from support.files import BOARDS, DEPLOY, ROOT, alerts, load, program, rules, run
from support.processes import binary

CHART = DEPLOY / "helm/tidegate"
VALUES = sorted((CHART / "ci").glob("*-values.yaml"))
NAMES = [path.name.removesuffix("-values.yaml") for path in VALUES]
# The oldest version that the chart accepts, and the newest whose schemas are there.
VERSIONS = ["1.27.0", "1.37.0"]
CRDS = Path(os.environ.get("TIDEGATE_CRDS") or ROOT / ".tools/crds")

if not shutil.which("helm") and not shutil.which("go"):
    pytest.skip("GO IS MISSING, so there is no helm and THE CHART IS NOT CHECKED", allow_module_level=True)


def template(*arguments: str | Path, succeeds: bool = True) -> str:
    """Renders the chart, and returns what helm prints without its notes on links."""
    words = [
        program("helm"),
        "template",
        "gate",
        CHART,
        "--namespace",
        "limits",
        "--kube-version",
        VERSIONS[-1],
    ]
    printed = run(*words, *arguments, succeeds=succeeds)
    return "\n".join(line for line in printed.splitlines() if "found symbolic link" not in line)


@cache
def rendered(values: str) -> list[dict[str, Any]]:
    """Returns the objects of a set of values."""
    documents = yaml.safe_load_all(template("--values", CHART / f"ci/{values}-values.yaml"))
    return [document for document in documents if document]


def one(values: str, kind: str, name: str = "gate-tidegate") -> dict[str, Any]:
    return next(d for d in rendered(values) if d["kind"] == kind and d["metadata"]["name"] == name)


def container(values: str) -> dict[str, Any]:
    return dict(one(values, "Deployment")["spec"]["template"]["spec"]["containers"][0])


def strict(schema: Any) -> Any:
    """Returns a schema of a custom resource that accepts only the fields that it names."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {name: strict(value) for name, value in schema.items()}
    if "properties" in schema and "x-kubernetes-preserve-unknown-fields" not in schema:
        copy.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string") is True:
        copy.pop("type", None)
    return copy


def custom(document: dict[str, Any]) -> list[str]:
    """Returns what the definition of a custom resource finds wrong with an object."""
    path = CRDS / f"monitoring.coreos.com_{document['kind'].lower()}s.yaml"
    versions = {version["name"]: version for version in load(path)["spec"]["versions"]}
    schema = strict(versions[document["apiVersion"].split("/")[1]]["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("values", NAMES)
def test_kubernetes_knows_every_field_of_every_object(values: str, version: str) -> None:
    kinds = set()
    for document in rendered(values):
        kinds.add(document["kind"])
        if document["apiVersion"].startswith("monitoring.coreos.com/"):
            assert custom(document) == []
        else:
            kubernetes_validate.validate(document, version, strict=True)
    assert {"Deployment", "Service", "ServiceAccount", "NetworkPolicy"} <= kinds


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_knows_every_field_of_the_plain_manifests(version: str) -> None:
    paths = [path for path in (DEPLOY / "kubernetes").glob("*.yaml") if path.name != "kustomization.yaml"]
    listed = load(DEPLOY / "kubernetes/kustomization.yaml")["resources"]
    assert sorted(path.name for path in paths) == sorted(listed)
    for path in paths:
        kubernetes_validate.validate(load(path), version, strict=True)


def test_the_check_finds_fields_that_do_not_exist() -> None:
    deployment = json.loads(json.dumps(one("minimal", "Deployment")))
    deployment["spec"]["template"]["spec"]["containers"][0]["imagePolicy"] = "Always"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, VERSIONS[-1], strict=True)
    monitor = json.loads(json.dumps(one("everything", "ServiceMonitor")))
    monitor["spec"]["endpoints"][0]["intervall"] = "5s"
    assert custom(monitor)


@pytest.mark.parametrize("values", NAMES)
def test_no_two_objects_have_the_same_name(values: str) -> None:
    names = [(document["kind"], document["metadata"]["name"]) for document in rendered(values)]
    assert len(names) == len(set(names)), names
    assert all(len(name) <= 63 for _, name in names)


def test_helm_lint_finds_nothing_wrong() -> None:
    for path in VALUES:
        run(program("helm"), "lint", "--strict", "--kube-version", VERSIONS[-1], CHART, "--values", path)


def test_everything_has_every_kind_of_object() -> None:
    kinds = {document["kind"] for document in rendered("everything")}
    wanted = {
        "HorizontalPodAutoscaler",
        "PodDisruptionBudget",
        "ServiceMonitor",
        "PrometheusRule",
        "ConfigMap",
    }
    assert wanted <= kinds
    assert {document["kind"] for document in rendered("minimal")}.isdisjoint(wanted - {"ConfigMap"})


@pytest.mark.parametrize("values", NAMES)
def test_pods_have_no_privileges_and_a_read_only_root(values: str) -> None:
    pod = one(values, "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    security = container(values)["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container(values))


def files_of(values: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Writes what the pod mounts to a folder, and returns the paths with where they really are."""
    pod = one(values, "Deployment")["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for mount in container(values)["volumeMounts"]:
        real = folder / mount["name"]
        real.mkdir()
        secret = volumes[mount["name"]].get("secret", {})
        names = [item["path"] for item in secret.get("items", [])] or ["tls.crt", "tls.key", "ca.crt"]
        for name in names:
            (real / name).write_text("")
        yield mount["mountPath"], str(real)


@pytest.mark.parametrize("values", NAMES)
def test_the_service_starts_with_the_settings_of_the_pod(values: str, tmp_path: Path) -> None:
    env = {v["name"]: v.get("value", "from a secret") for v in container(values)["env"]}
    assert len(env) == len(container(values)["env"]), "a variable is set twice"
    mounted = dict(files_of(values, tmp_path))
    for name, value in env.items():
        for inside in sorted(mounted, key=len, reverse=True):
            value = value.replace(inside, mounted[inside])
        env[name] = value
    assert "/run/secrets" not in str(env), "a file is not mounted"
    done = subprocess.run([binary(), "config", "--json"], env=env, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    settings = json.loads(done.stdout)
    for listener, port in (("grpc", 8081), ("http", 8080)):
        assert settings[f"{listener}.listen"]["value"] == f"0.0.0.0:{port}"
        assert {"name": listener, "containerPort": port} in container(values)["ports"]
    delay, grace = (settings[f"drain.{name}"]["value"] for name in ("delay", "grace"))
    seconds = one(values, "Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert seconds > int(delay.removesuffix("s")) + int(grace.removesuffix("s"))


def test_secrets_are_in_files_and_never_in_arguments() -> None:
    for values in NAMES:
        for variable in container(values)["env"]:
            assert "valueFrom" in variable or "password=" not in variable["value"], variable
    store = next(v["value"] for v in container("redis")["env"] if v["name"] == "TIDEGATE_STORE")
    assert store == "redis://cache.example.internal:6379?password_file=/run/secrets/store/password"
    catalog = next(v["value"] for v in container("postgres-tls")["env"] if v["name"] == "TIDEGATE_CATALOG")
    assert catalog.endswith(
        "?sslmode=verify-full&password_file=/run/secrets/catalog/password&sslrootcert=/run/secrets/catalog-ca/ca.crt"
    )


def test_the_rules_of_the_chart_pass_a_strict_check(tmp_path: Path) -> None:
    for name, text in one("minimal", "ConfigMap", "gate-tidegate-rules")["data"].items():
        (tmp_path / name).write_text(text)
    run(binary(), "check", "--strict", tmp_path, folder=tmp_path)


def test_the_alerts_of_the_chart_are_those_of_prometheus_but_for_the_disabled(tmp_path: Path) -> None:
    groups = one("everything", "PrometheusRule")["spec"]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(groups))
    run(program("promtool"), "check", "rules", path)
    found = [rule for group in groups["groups"] for rule in group["rules"]]
    assert found == [rule for rule in sorted_rules() if rule.get("alert") != "TidegateSwitchSet"]
    assert "TidegateSwitchSet" in {rule["alert"] for rule in alerts()}


def sorted_rules() -> list[dict[str, Any]]:
    return list(rules())


def test_the_boards_of_the_chart_are_those_of_grafana() -> None:
    for path in BOARDS:
        data = one("everything", "ConfigMap", f"gate-tidegate-board-{path.stem}")["data"]
        assert json.loads(data[f"tidegate-{path.name}"]) == load(path)


def test_prometheus_finds_the_admin_port_and_the_job_that_alerts_expect() -> None:
    monitor = one("everything", "ServiceMonitor")["spec"]
    service = one("everything", "Service", "gate-tidegate-admin")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert {"targetLabel": "job", "replacement": "tidegate"} in monitor["endpoints"][0]["relabelings"]
    traffic = one("everything", "Service")
    assert "app.kubernetes.io/component" not in traffic["metadata"]["labels"]


WRONG = [
    ("replicas=0", "at '/replicas': minimum: got 0, want 1"),
    ("replicas=3", "set store.kind to redis"),
    ("autoscaling.enabled=true", "set store.kind to redis"),
    ("store.kind=valkey", "at '/store/kind': value must be one of 'memory', 'redis'"),
    ("store.kind=redis", "store.address: is needed with store.kind redis"),
    ("store.address=redis://cache", "has no effect with store.kind memory"),
    ("store.address=cache:6379", "at '/store/address'"),
    ("catalog.kind=postgres", "catalog.address: is needed"),
    ("catalog.address=postgres://db/x", "has no effect with catalog.kind sqlite"),
    ("stor.kind=redis", "additional properties 'stor' not allowed"),
    ("rules.catalog=true", "the rules would end with the pod"),
    ("serviceMonitor.enabled=true", "without admin.tokenSecret.name"),
    ("tls.grpc.clientCa=true", "tls.grpc.clientCa: needs tls.grpc.secretName"),
    ("memory.maxBytes=1GiB", "more than nine tenths of resources.limits.memory"),
    ("memory.maxBytes=much", "at '/memory/maxBytes'"),
    ("resources.limits.memory=null", "at '/resources/limits': missing property 'memory'"),
    ("settings.store=x", "settings.store: the chart sets it"),
    ("secretSettings.log\\.level.name=a", "missing property 'key'"),
    ("secretSettings.headers\\.rls.name=a,secretSettings.headers\\.rls.key=b", "is in settings too"),
    ("podDisruptionBudget.maxUnavailable=0", "at '/podDisruptionBudget/maxUnavailable'"),
    ("autoscaling.enabled=true,autoscaling.minReplicas=20", "20 is more than autoscaling.maxReplicas"),
]


@pytest.mark.parametrize(("values", "told"), WRONG)
def test_values_that_make_no_sense_are_refused_with_what_to_do(values: str, told: str) -> None:
    assert told in template("--set", values, succeeds=False)
