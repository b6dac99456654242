"""Files that cannot run here, checked against published schemas, linters, and each other."""

import argparse
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import resources
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from devtools.tools import install, need, run, version
from hushgram import load_collections
from hushgram.pipelines.collect import command as collect
from hushgram.pipelines.collect.server import STOP_SECONDS
from tests.helpers.deployments import (
    COLLECTOR,
    DEPLOY,
    DOCKERFILES,
    FLINK,
    ROOT,
    find_images,
    list_containers,
    load_collector,
    load_compose,
    load_manifests,
    load_pods,
    select_manifests,
)
from tests.helpers.tools import run_or_skip

BIN = Path(sys.executable).parent
KUSTOMIZE = "5.7.1"
OPERATOR = DEPLOY / "flink" / "kubernetes" / "pom.xml"
JOB_SERVER = DEPLOY / "flink" / "jobserver" / "pom.xml"
PINNED = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if re.match(r"[\w.-]+==", line)
)
FLINK_USER = 9999
"""Of Flink's image; ours have the same, to share volumes with it."""
OURS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def format_path(path):
    return str(path.relative_to(ROOT))


# ---- Dockerfiles and scripts


@pytest.mark.parametrize("path", DOCKERFILES, ids=format_path)
def test_dockerfiles_pass_hadolint(path):
    completed = subprocess.run([BIN / "hadolint", path], capture_output=True, text=True)
    assert completed.returncode == 0, completed.stdout


def test_hadolint_refuses_a_bad_dockerfile(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN apt-get install curl\n")
    assert subprocess.run([BIN / "hadolint", tmp_path / "Dockerfile"], capture_output=True).returncode != 0


@pytest.mark.parametrize("path", DOCKERFILES, ids=format_path)
def test_images_run_without_root_and_carry_no_secret(path):
    lines = path.read_text().splitlines()
    users = [line for line in lines if line.startswith("USER")]
    # Dataflow's is the one exception, and says why.
    assert users == ([f"USER {FLINK_USER}:{FLINK_USER}"] if "dataflow" not in str(path) else [])
    assert not [line for line in lines if re.match(r"\s*(ENV|ARG)?.*(PASSWORD|SECRET|TOKEN)", line)]
    assert next(line for line in lines if line.startswith("ENTRYPOINT")).startswith("ENTRYPOINT [")


def test_the_user_of_workers_has_a_name():
    """Beam's boot program looks its user up when it starts, and crashes if there is none."""
    worker = (DEPLOY / "flink" / "Dockerfile").read_text()
    assert f"useradd --uid {FLINK_USER} " in worker
    for pod in load_pods().values():
        assert pod["securityContext"]["runAsUser"] == FLINK_USER


@pytest.mark.parametrize("path", DOCKERFILES, ids=format_path)
def test_files_copied_into_images_exist_and_are_in_the_build_context(path):
    build_context = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for line in path.read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), line
                assert source in build_context, line


def test_scripts_pass_shellcheck():
    scripts = [*DEPLOY.rglob("*.sh"), ROOT / ".ci" / "run"]
    completed = subprocess.run([BIN / "shellcheck", *scripts], capture_output=True, text=True)
    assert completed.returncode == 0, completed.stdout


# ---- compose


def test_the_compose_file_is_valid():
    schema_file = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    jsonschema.validate(load_compose(), json.loads(schema_file.read_text()))


def test_compose_services_have_no_rights_and_publish_ports_on_loopback_only():
    for name, service in load_compose()["services"].items():
        assert service["read_only"] or name == "kafka"
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        assert service.get("user") != "root" or name == "folders"


def test_compose_services_and_volumes_that_are_named_exist():
    services, volumes = load_compose()["services"], load_compose()["volumes"]
    for service in services.values():
        for other, dependency in service.get("depends_on", {}).items():
            assert dependency["condition"] != "service_healthy" or "healthcheck" in services[other]
        if "network_mode" in service:
            assert service["network_mode"].removeprefix("service:") in services
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).is_dir() if source.startswith(".") else source in volumes


def test_workers_cannot_reach_the_job_server():
    """Workers process data from strangers, and the job server runs whatever it receives."""
    services = load_compose()["services"]
    assert not set(services["jobserver"]["networks"]) & set(services["taskmanager"].get("networks", ["default"]))
    assert services["workers"]["network_mode"] == "service:taskmanager"
    for needed in ("jobmanager", "kafka"):
        assert set(services["jobserver"]["networks"]) <= set(services[needed]["networks"]) - {"default"}


# ---- Kubernetes


@pytest.fixture(scope="module")
def flink_schema():
    """The schema of the operator's own resource, from its jar; closed, so that unknown names are refused."""
    run_or_skip(need, "java", "mvn")
    jar = f"flink-kubernetes-operator-api-{version(OPERATOR, 'operator.version')}.jar"

    def fetch(target):
        run(["mvn", "--quiet", "--batch-mode", "-f", OPERATOR, "dependency:copy-dependencies", f"-Doutput={target}"])

    folder = install(f"flink-operator-{version(OPERATOR, 'operator.version')}", fetch)
    with zipfile.ZipFile(folder / jar) as archive:
        definition = yaml.safe_load(archive.read("META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml"))
    [served_version] = [entry for entry in definition["spec"]["versions"] if entry["name"] == "v1beta1"]
    return close_schema(served_version["schema"]["openAPIV3Schema"])


def close_schema(schema):
    if isinstance(schema, list):
        return [close_schema(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: close_schema(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        result.setdefault("additionalProperties", False)
    if result.pop("x-kubernetes-int-or-string", False):
        result.pop("type", None)
        result["type"] = ["integer", "string"]
    return result


@pytest.mark.slow
def test_the_flink_deployment_is_valid_for_the_operator(flink_schema):
    [flink] = select_manifests("FlinkDeployment")
    common_properties = {"apiVersion": {}, "kind": {}, "metadata": {}}
    schema = {**flink_schema, "properties": {**flink_schema["properties"], **common_properties}}
    jsonschema.validate(flink, schema)
    invalid = {**flink, "spec": {**flink["spec"], "taskManagers": {}}}
    with pytest.raises(jsonschema.ValidationError, match="taskManagers"):
        jsonschema.validate(invalid, schema)


@pytest.mark.parametrize(
    "manifest",
    [*load_manifests(), *load_manifests(COLLECTOR)],
    ids=lambda manifest: f"{manifest['kind']} {manifest['metadata']['name']}",
)
def test_manifests_are_valid_for_kubernetes(manifest):
    if manifest["kind"] == "FlinkDeployment":
        for template in (manifest["spec"]["podTemplate"], manifest["spec"]["taskManager"]["podTemplate"]):
            parts = template["spec"].get("containers", [{"name": "flink-main-container"}])
            complete_containers = [{"image": "filled-in-by-the-operator", **container} for container in parts]
            pod = {**template, "spec": {**template["spec"], "containers": complete_containers}}
            kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)
    else:
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("folder", [FLINK, COLLECTOR], ids=format_path)
def test_all_manifests_are_in_one_namespace_that_refuses_rights(folder):
    [namespace] = select_manifests("Namespace", folder)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    others = [
        manifest["metadata"].get("namespace") for manifest in load_manifests(folder) if manifest["kind"] != "Namespace"
    ]
    assert set(others) == {namespace["metadata"]["name"]}


@pytest.mark.parametrize("name", ["jobmanager", "taskmanager", "submit", "collector"])
def test_containers_have_no_rights(name):
    pod = load_collector() if name == "collector" else load_pods()[name]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in list_containers(pod):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert any(mount["mountPath"] == "/tmp" for mount in container["volumeMounts"])
        if container["name"] != "flink-main-container":  # whose resources the operator sets
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])
            assert "memory" in container["resources"]["limits"]
        assert all("value" not in variable for variable in container.get("env", [])), "secrets come from secrets"


@pytest.mark.parametrize("name", ["jobmanager", "taskmanager", "submit", "collector"])
def test_volumes_mounted_by_pods_exist(name):
    folder, pod = (COLLECTOR, load_collector()) if name == "collector" else (FLINK, load_pods()[name])
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for container in list_containers(pod):
        assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes)
    claims = {claim["metadata"]["name"] for claim in select_manifests("PersistentVolumeClaim", folder)}
    generated = yaml.safe_load((folder / "kustomization.yaml").read_text())["configMapGenerator"]
    maps = {generator["name"]: generator["files"] for generator in generated}
    guide = (folder.parent / "README.md").read_text()
    for volume in volumes.values():
        if "persistentVolumeClaim" in volume:
            assert volume["persistentVolumeClaim"]["claimName"] in claims
        if "configMap" in volume:
            assert all((folder / file).is_file() for file in maps[volume["configMap"]["name"]])
        if "secret" in volume:
            assert f"create secret generic {volume['secret']['secretName']}" in guide


@pytest.fixture(scope="module")
def kustomize():
    run_or_skip(need, "go")
    module = f"sigs.k8s.io/kustomize/kustomize/v5@v{KUSTOMIZE}"
    return install(f"kustomize-{KUSTOMIZE}", lambda target: run(["go", "install", module], {"GOBIN": str(target)}))


@pytest.mark.slow
@pytest.mark.parametrize("folder", [FLINK, COLLECTOR], ids=format_path)
def test_kustomize_builds_all_manifests(folder, kustomize):
    command = [kustomize / "kustomize", "build", folder]
    completed = subprocess.run(command, capture_output=True, text=True, check=True)
    built_manifests = list(yaml.safe_load_all(completed.stdout))
    [collections] = [manifest for manifest in built_manifests if manifest["kind"] == "ConfigMap"]
    kubernetes_validate.validate(collections, kubernetes_validate.latest_version(), strict=True)
    assert collections["data"]["collections.yaml"] == (folder / "collections.yaml").read_text()
    others = [manifest for manifest in built_manifests if manifest["kind"] != "ConfigMap"]
    assert sorted(others, key=str) == sorted(load_manifests(folder), key=str)


def test_collectors_and_pipeline_know_the_same_collections():
    definitions = [load_collections(folder / "collections.yaml") for folder in (FLINK, COLLECTOR)]
    assert definitions[0] == definitions[1]


@pytest.mark.parametrize(
    "arguments",
    [load_collector()["containers"][0]["args"], load_compose()["services"]["collector"]["command"]],
    ids=["kubernetes", "compose"],
)
def test_the_collector_knows_its_options(arguments):
    parser = argparse.ArgumentParser()
    collect.add_arguments(parser)
    options = parser.parse_args(arguments)
    collect.limits_of(options)  # which refuses what cannot be
    assert (options.kafka, options.topic) != (None, None)


def test_the_collector_is_asked_on_the_port_that_it_listens_on_and_ends_before_it_is_killed():
    pod = load_collector()
    [container] = pod["containers"]
    [port] = container["ports"]
    assert f"--port={port['containerPort']}" in container["args"]
    assert {container[name]["httpGet"]["port"] for name in ("startupProbe", "livenessProbe", "readinessProbe")} == {
        port["name"]
    }
    assert pod["terminationGracePeriodSeconds"] > STOP_SECONDS
    [service] = select_manifests("Service", COLLECTOR)
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    _, policy = select_manifests("NetworkPolicy", COLLECTOR)
    assert [rule["ports"] for rule in policy["spec"]["ingress"]] == [[{"port": port["containerPort"]}]]


def test_worker_containers_start_before_flink_and_are_restarted():
    """Flink never starts a container of a TaskManager's pod again, but Kubernetes does so with a sidecar."""
    pod = load_pods()["taskmanager"]
    assert [container["name"] for container in pod["containers"]] == ["flink-main-container"]
    [workers] = pod["initContainers"]
    assert workers["restartPolicy"] == "Always"
    assert workers["startupProbe"]["tcpSocket"]["port"] == int(read_option("environment_config").partition(":")[2])


def test_only_flink_has_a_token_of_kubernetes():
    """Workers process data from strangers: they get no token with which to request more pods."""
    for name, pod in load_pods().items():
        assert pod["automountServiceAccountToken"] is False
        holders = [
            container["name"]
            for container in list_containers(pod)
            if "token" in {mount["name"] for mount in container["volumeMounts"]}
        ]
        assert holders == ([] if name == "submit" else ["flink-main-container"])


def read_option(name):
    """An option of the submission on Kubernetes."""
    [job] = select_manifests("Job")
    [matching] = [
        arg for arg in job["spec"]["template"]["spec"]["containers"][0]["args"] if arg.startswith(f"--{name}=")
    ]
    return matching.partition("=")[2]


def test_a_worker_for_each_slot_and_a_core_for_each_worker():
    [flink] = select_manifests("FlinkDeployment")
    slots = flink["spec"]["flinkConfiguration"]["taskmanager.numberOfTaskSlots"]
    assert read_option("sdk_worker_parallelism") == slots
    assert load_pods()["taskmanager"]["initContainers"][0]["resources"]["requests"]["cpu"] == slots
    services = load_compose()["services"]
    assert f"-Dtaskmanager.numberOfTaskSlots={slots}" in services["taskmanager"]["command"]
    assert f"--sdk_worker_parallelism={slots}" in services["submit"]["command"]


def test_a_submission_finds_flink_and_waits_for_it():
    [flink] = select_manifests("FlinkDeployment")
    address = f"{flink['metadata']['name']}-rest:8081"  # the name that Flink gives to its service
    server, wait = load_pods()["submit"]["initContainers"]
    assert f"--flink-master={address}" in server["args"]
    assert f"http://{address}/" in wait["args"][0]
    compile(wait["args"][0], "wait", "exec")


def ports_of_flink():
    [flink] = select_manifests("FlinkDeployment")
    settings = flink["spec"]["flinkConfiguration"]
    return {name: int(value) for name, value in settings.items() if name.endswith(".port")}


def labels_of(name):
    return {"app": "hushgram-submit"} if name == "submit" else {"app": "hushgram", "component": name}


def find_rules(name, direction):
    """The rules for one direction of all policies that select a pod."""
    matching = []
    for policy in select_manifests("NetworkPolicy"):
        selected = policy["spec"]["podSelector"].get("matchLabels", {})
        if selected.items() <= labels_of(name).items() and direction.capitalize() in policy["spec"]["policyTypes"]:
            matching += policy["spec"].get(direction, [])
    return matching


def allows(rule, side, peer, port):
    peers = [
        selector.get("podSelector", {"matchLabels": {"never": ""}})["matchLabels"] for selector in rule.get(side, [])
    ]
    matches_peer = side not in rule or any(labels.items() <= labels_of(peer).items() for labels in peers)
    return matches_peer and any(entry["port"] == port for entry in rule["ports"])


def test_network_policies_allow_the_connections_that_are_needed():
    ports = ports_of_flink()
    connections = [
        *(("taskmanager", "jobmanager", ports[name]) for name in ("jobmanager.rpc.port", "blob.server.port")),
        ("jobmanager", "taskmanager", ports["taskmanager.rpc.port"]),
        ("jobmanager", "taskmanager", ports["metrics.internal.query-service.port"]),
        ("taskmanager", "taskmanager", ports["taskmanager.data.port"]),
        ("submit", "jobmanager", 8081),
    ]
    for source, target, port in connections:
        assert any(allows(rule, "to", target, port) for rule in find_rules(source, "egress")), (source, target, port)
        assert any(allows(rule, "from", source, port) for rule in find_rules(target, "ingress")), (source, target, port)


@pytest.mark.parametrize("name", ["taskmanager", "submit"])
def test_network_policies_allow_the_brokers_of_the_submission(name):
    host, _, port = read_option("kafka").partition(":")
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": host.split(".")[1]}}
    rule = {"to": [{"namespaceSelector": namespace}], "ports": [{"port": int(port)}]}
    assert rule in find_rules(name, "egress")


def addresses_in_the_guide():
    """Of servers in the cluster that the guide tells to add: their namespaces and ports."""
    return re.findall(r"://[\w-]+\.([\w-]+)\.svc:(\d+)", (DEPLOY / "flink" / "README.md").read_text())


@pytest.mark.parametrize("name", ["taskmanager", "submit"])
def test_network_policies_allow_the_servers_that_the_guide_adds(name):
    addresses = [*addresses_in_the_guide(), ("postgresql", "5432"), ("schema-registry", "8081")]
    assert {namespace for namespace, _ in addresses} == {"postgresql", "schema-registry", "iceberg"}
    for namespace, port in addresses:
        target = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}]
        assert any(
            rule.get("to") == target and {"port": int(port)} in rule["ports"] for rule in find_rules(name, "egress")
        ), (namespace, port)


@pytest.mark.parametrize(("name", "container"), [("taskmanager", "workers"), ("submit", "submit")])
def test_whoever_writes_to_iceberg_is_told_of_its_catalogue(name, container):
    [found] = [entry for entry in list_containers(load_pods()[name]) if entry["name"] == container]
    [source] = found["envFrom"]
    assert source["secretRef"]["optional"], "without the sink there is no such secret"
    guide = (DEPLOY / "flink" / "README.md").read_text()
    assert f"create secret generic {source['secretRef']['name']} --from-env-file" in guide
    assert guide.count("PYICEBERG_CATALOG__LAKE__") == 3


def test_paths_that_the_guides_name_exist():
    for guide in DEPLOY.rglob("*.md"):
        for path in re.findall(r"`(\.\.?/[\w./-]+)`", guide.read_text()):
            assert (guide.parent / path).exists(), f"{format_path(guide)}: {path}"


def test_network_policies_refuse_all_other_connections():
    for source, target, port in [("submit", "taskmanager", 50000), ("jobmanager", "submit", 8099)]:
        assert not any(allows(rule, "to", target, port) for rule in find_rules(source, "egress"))
        assert not any(allows(rule, "from", source, port) for rule in find_rules(target, "ingress"))
    default_policies = [policy for policy in select_manifests("NetworkPolicy") if not policy["spec"]["podSelector"]]
    assert any(not policy["spec"].get("ingress") and not policy["spec"].get("egress") for policy in default_policies)


# ---- versions


def read_image_sources():
    """Of each image, where its tag comes from."""
    flink, python = version(JOB_SERVER, "flink.version"), f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert flink.startswith(version(JOB_SERVER, "flink.line") + ".")
    return {
        f"apache/beam_python{python}_sdk": PINNED["apache-beam"],
        "apache/kafka": version(ROOT / "devtools" / "kafka" / "pom.xml", "kafka.version"),
        "flink": f"{flink}-java17",
        "hushgram": OURS,
        "hushgram-jobserver": OURS,
        "hushgram-collector": OURS,
        "python": f"{python}-slim-bookworm",
        # Tools and base images, which no metadata name.
        "maven": "3.9-eclipse-temurin-17",
        "eclipse-temurin": "17-jre",
        "gcr.io/dataflow-templates-base/python311-template-launcher-base": "${LAUNCHER}",
    }


def test_images_have_the_versions_of_their_one_source():
    all_images = list(find_images())
    assert len(all_images) > 10
    for path, image in all_images:
        name, _, tag = image.rpartition(":")
        assert read_image_sources().get(name) == tag, f"{format_path(path)}: {image}"


def test_image_labels_and_the_flink_deployment_have_the_same_versions():
    for path in DOCKERFILES:
        assert f'org.opencontainers.image.version="{OURS}"' in path.read_text()
    [flink] = select_manifests("FlinkDeployment")
    assert flink["spec"]["flinkVersion"] == "v" + version(JOB_SERVER, "flink.line").replace(".", "_")


def test_guides_name_no_other_versions():
    versions = {"stream": OURS, **read_image_sources()}
    versions |= {
        f"apache/beam_flink{version(JOB_SERVER, 'flink.line')}_job_server": version(JOB_SERVER, "beam.version")
    }
    for guide in [*DEPLOY.rglob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md", *DOCKERFILES]:
        for name, tag in re.findall(r"([\w./-]+):v?(\d+\.\d+[\w.-]*)", guide.read_text()):
            expected = versions.get(name) or versions.get(name.rpartition("/")[2])
            assert expected == tag.rstrip("."), f"{format_path(guide)}: {name}:{tag}"


def test_the_guide_installs_the_operator_that_the_manifests_are_written_for():
    guide, operator = (DEPLOY / "flink" / "README.md").read_text(), version(OPERATOR, "operator.version")
    assert f"/flink-kubernetes-operator-{operator}/" in guide
    assert f"operator-docs-stable/) {operator.rpartition('.')[0]}," in guide


def test_installed_versions_are_the_pinned_ones():
    from importlib import metadata

    assert metadata.version("apache-beam") == PINNED["apache-beam"]
    assert metadata.version("hushgram") == OURS
