"""Files that cannot run here, held to what can be checked: published schemas, linters, and each other."""

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
from tests.helpers.deployments import DEPLOY, DOCKERFILES, ROOT, compose, containers, images, manifests, of_kind, pods
from tests.helpers.tools import or_skip

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


def relative(path):
    return str(path.relative_to(ROOT))


# ---- Dockerfiles and scripts


@pytest.mark.parametrize("path", DOCKERFILES, ids=relative)
def test_dockerfiles_pass_hadolint(path):
    done = subprocess.run([BIN / "hadolint", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_hadolint_would_object(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN apt-get install curl\n")
    assert subprocess.run([BIN / "hadolint", tmp_path / "Dockerfile"], capture_output=True).returncode != 0


@pytest.mark.parametrize("path", DOCKERFILES, ids=relative)
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
    for pod in pods().values():
        assert pod["securityContext"]["runAsUser"] == FLINK_USER


@pytest.mark.parametrize("path", DOCKERFILES, ids=relative)
def test_what_images_copy_is_there_and_is_sent_to_the_builder(path):
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for line in path.read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), line
                assert source in sent, line


def test_scripts_pass_shellcheck():
    scripts = [*DEPLOY.rglob("*.sh"), ROOT / ".ci" / "run"]
    done = subprocess.run([BIN / "shellcheck", *scripts], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


# ---- compose


def test_the_compose_file_is_one():
    vendored = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    jsonschema.validate(compose(), json.loads(vendored.read_text()))


def test_services_have_no_rights_and_ports_are_open_here_alone():
    for name, service in compose()["services"].items():
        assert service["read_only"] or name == "kafka"
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        assert service.get("user") != "root" or name == "folders"


def test_services_and_volumes_that_are_named_exist():
    services, volumes = compose()["services"], compose()["volumes"]
    for service in services.values():
        for other, wanted in service.get("depends_on", {}).items():
            assert wanted["condition"] != "service_healthy" or "healthcheck" in services[other]
        if "network_mode" in service:
            assert service["network_mode"].removeprefix("service:") in services
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).is_dir() if source.startswith(".") else source in volumes


def test_workers_cannot_reach_the_job_server():
    """They take in what strangers sent, and it runs what it is given."""
    services = compose()["services"]
    assert not set(services["jobserver"]["networks"]) & set(services["taskmanager"].get("networks", ["default"]))
    assert services["workers"]["network_mode"] == "service:taskmanager"
    for needed in ("jobmanager", "kafka"):
        assert set(services["jobserver"]["networks"]) <= set(services[needed]["networks"]) - {"default"}


# ---- Kubernetes


@pytest.fixture(scope="module")
def flink_schema():
    """Of the operator's own resource, from its jar; closed, so that a name that it does not know is refused."""
    or_skip(need, "java", "mvn")
    jar = f"flink-kubernetes-operator-api-{version(OPERATOR, 'operator.version')}.jar"

    def fetch(target):
        run(["mvn", "--quiet", "--batch-mode", "-f", OPERATOR, "dependency:copy-dependencies", f"-Doutput={target}"])

    folder = install(f"flink-operator-{version(OPERATOR, 'operator.version')}", fetch)
    with zipfile.ZipFile(folder / jar) as opened:
        definition = yaml.safe_load(opened.read("META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml"))
    [served] = [each for each in definition["spec"]["versions"] if each["name"] == "v1beta1"]
    return closed(served["schema"]["openAPIV3Schema"])


def closed(schema):
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(part) for key, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    if made.pop("x-kubernetes-int-or-string", False):
        made.pop("type", None)
        made["type"] = ["integer", "string"]
    return made


@pytest.mark.slow
def test_the_cluster_is_what_the_operator_knows(flink_schema):
    [flink] = of_kind("FlinkDeployment")
    of_all = {"apiVersion": {}, "kind": {}, "metadata": {}}
    known = {**flink_schema, "properties": {**flink_schema["properties"], **of_all}}
    jsonschema.validate(flink, known)
    wrong = {**flink, "spec": {**flink["spec"], "taskManagers": {}}}
    with pytest.raises(jsonschema.ValidationError, match="taskManagers"):
        jsonschema.validate(wrong, known)


@pytest.mark.parametrize("each", manifests(), ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
def test_manifests_are_what_kubernetes_knows(each):
    if each["kind"] == "FlinkDeployment":
        for template in (each["spec"]["podTemplate"], each["spec"]["taskManager"]["podTemplate"]):
            parts = template["spec"].get("containers", [{"name": "flink-main-container"}])
            named = [{"image": "filled-in-by-the-operator", **part} for part in parts]
            pod = {**template, "spec": {**template["spec"], "containers": named}}
            kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)
    else:
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)


def test_everything_is_in_one_namespace_that_refuses_rights():
    [namespace] = of_kind("Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    others = [each["metadata"].get("namespace") for each in manifests() if each["kind"] != "Namespace"]
    assert set(others) == {namespace["metadata"]["name"]}


@pytest.mark.parametrize("name", ["jobmanager", "taskmanager", "submit"])
def test_containers_have_no_rights(name):
    pod = pods()[name]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(pod):
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


@pytest.mark.parametrize("name", ["jobmanager", "taskmanager", "submit"])
def test_what_pods_mount_is_there(name):
    pod = pods()[name]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for container in containers(pod):
        assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes)
    claims = {claim["metadata"]["name"] for claim in of_kind("PersistentVolumeClaim")}
    generated = yaml.safe_load((OPERATOR.parent / "kustomization.yaml").read_text())["configMapGenerator"]
    maps = {each["name"]: each["files"] for each in generated}
    guide = (DEPLOY / "flink" / "README.md").read_text()
    for volume in volumes.values():
        if "persistentVolumeClaim" in volume:
            assert volume["persistentVolumeClaim"]["claimName"] in claims
        if "configMap" in volume:
            assert all((OPERATOR.parent / file).is_file() for file in maps[volume["configMap"]["name"]])
        if "secret" in volume:
            assert f"create secret generic {volume['secret']['secretName']}" in guide


@pytest.fixture(scope="module")
def kustomize():
    or_skip(need, "go")
    module = f"sigs.k8s.io/kustomize/kustomize/v5@v{KUSTOMIZE}"
    return install(f"kustomize-{KUSTOMIZE}", lambda target: run(["go", "install", module], {"GOBIN": str(target)}))


@pytest.mark.slow
def test_kustomize_puts_all_of_it_together(kustomize):
    command = [kustomize / "kustomize", "build", OPERATOR.parent]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    built = list(yaml.safe_load_all(done.stdout))
    [collections] = [each for each in built if each["kind"] == "ConfigMap"]
    kubernetes_validate.validate(collections, kubernetes_validate.latest_version(), strict=True)
    assert collections["data"]["collections.yaml"] == (OPERATOR.parent / "collections.yaml").read_text()
    others = [each for each in built if each["kind"] != "ConfigMap"]
    assert sorted(others, key=str) == sorted(manifests(), key=str)


def test_workers_are_there_before_flink_and_are_started_again():
    """Flink never starts a container of a TaskManager's pod again, but Kubernetes does so with a sidecar."""
    pod = pods()["taskmanager"]
    assert [container["name"] for container in pod["containers"]] == ["flink-main-container"]
    [workers] = pod["initContainers"]
    assert workers["restartPolicy"] == "Always"
    assert workers["startupProbe"]["tcpSocket"]["port"] == int(option("environment_config").partition(":")[2])


def test_only_flink_has_a_token_of_kubernetes():
    """Workers take in what strangers sent: they get nothing that could ask for more pods."""
    for name, pod in pods().items():
        assert pod["automountServiceAccountToken"] is False
        holders = [
            part["name"] for part in containers(pod) if "token" in {each["name"] for each in part["volumeMounts"]}
        ]
        assert holders == ([] if name == "submit" else ["flink-main-container"])


def option(name):
    """Of the submission on Kubernetes."""
    [job] = of_kind("Job")
    [found] = [arg for arg in job["spec"]["template"]["spec"]["containers"][0]["args"] if arg.startswith(f"--{name}=")]
    return found.partition("=")[2]


def test_a_worker_for_each_slot_and_a_core_for_each_worker():
    [flink] = of_kind("FlinkDeployment")
    slots = flink["spec"]["flinkConfiguration"]["taskmanager.numberOfTaskSlots"]
    assert option("sdk_worker_parallelism") == slots
    assert pods()["taskmanager"]["initContainers"][0]["resources"]["requests"]["cpu"] == slots
    services = compose()["services"]
    assert f"-Dtaskmanager.numberOfTaskSlots={slots}" in services["taskmanager"]["command"]
    assert f"--sdk_worker_parallelism={slots}" in services["submit"]["command"]


def test_a_submission_finds_flink_and_waits_for_it():
    [flink] = of_kind("FlinkDeployment")
    address = f"{flink['metadata']['name']}-rest:8081"  # the name that Flink gives to its service
    server, wait = pods()["submit"]["initContainers"]
    assert f"--flink-master={address}" in server["args"]
    assert f"http://{address}/" in wait["args"][0]
    compile(wait["args"][0], "wait", "exec")


def ports_of_flink():
    [flink] = of_kind("FlinkDeployment")
    settings = flink["spec"]["flinkConfiguration"]
    return {name: int(value) for name, value in settings.items() if name.endswith(".port")}


def labels_of(name):
    return {"app": "hushgram-submit"} if name == "submit" else {"app": "hushgram", "component": name}


def rules(name, direction):
    """The rules for one direction of all policies that select a pod."""
    found = []
    for policy in of_kind("NetworkPolicy"):
        selected = policy["spec"]["podSelector"].get("matchLabels", {})
        if selected.items() <= labels_of(name).items() and direction.capitalize() in policy["spec"]["policyTypes"]:
            found += policy["spec"].get(direction, [])
    return found


def allowed(rule, side, peer, port):
    peers = [part.get("podSelector", {"matchLabels": {"never": ""}})["matchLabels"] for part in rule.get(side, [])]
    right_peer = side not in rule or any(wanted.items() <= labels_of(peer).items() for wanted in peers)
    return right_peer and any(each["port"] == port for each in rule["ports"])


def test_who_has_to_talk_may():
    ports = ports_of_flink()
    talks = [
        *(("taskmanager", "jobmanager", ports[name]) for name in ("jobmanager.rpc.port", "blob.server.port")),
        ("jobmanager", "taskmanager", ports["taskmanager.rpc.port"]),
        ("jobmanager", "taskmanager", ports["metrics.internal.query-service.port"]),
        ("taskmanager", "taskmanager", ports["taskmanager.data.port"]),
        ("submit", "jobmanager", 8081),
    ]
    for source, target, port in talks:
        assert any(allowed(rule, "to", target, port) for rule in rules(source, "egress")), (source, target, port)
        assert any(allowed(rule, "from", source, port) for rule in rules(target, "ingress")), (source, target, port)


@pytest.mark.parametrize("name", ["taskmanager", "submit"])
def test_the_brokers_may_be_asked_where_the_submission_says_they_are(name):
    host, _, port = option("kafka").partition(":")
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": host.split(".")[1]}}
    rule = {"to": [{"namespaceSelector": namespace}], "ports": [{"port": int(port)}]}
    assert rule in rules(name, "egress")


def test_who_need_not_talk_may_not():
    for source, target, port in [("submit", "taskmanager", 50000), ("jobmanager", "submit", 8099)]:
        assert not any(allowed(rule, "to", target, port) for rule in rules(source, "egress"))
        assert not any(allowed(rule, "from", source, port) for rule in rules(target, "ingress"))
    everyone = [policy for policy in of_kind("NetworkPolicy") if not policy["spec"]["podSelector"]]
    assert any(not policy["spec"].get("ingress") and not policy["spec"].get("egress") for policy in everyone)


# ---- versions


def sources():
    """Of each image, where its tag comes from."""
    flink, python = version(JOB_SERVER, "flink.version"), f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert flink.startswith(version(JOB_SERVER, "flink.line") + ".")
    return {
        f"apache/beam_python{python}_sdk": PINNED["apache-beam"],
        "apache/kafka": version(ROOT / "devtools" / "kafka" / "pom.xml", "kafka.version"),
        "flink": f"{flink}-java17",
        "hushgram": OURS,
        "hushgram-jobserver": OURS,
        # Tools and bases of images, which are nobody's metadata.
        "maven": "3.9-eclipse-temurin-17",
        "eclipse-temurin": "17-jre",
        "gcr.io/dataflow-templates-base/python311-template-launcher-base": "${LAUNCHER}",
    }


def test_images_have_the_versions_of_their_one_source():
    found = list(images())
    assert len(found) > 10
    for path, image in found:
        name, _, tag = image.rpartition(":")
        assert sources().get(name) == tag, f"{relative(path)}: {image}"


def test_labels_and_the_cluster_have_them_too():
    for path in DOCKERFILES:
        assert f'org.opencontainers.image.version="{OURS}"' in path.read_text()
    [flink] = of_kind("FlinkDeployment")
    assert flink["spec"]["flinkVersion"] == "v" + version(JOB_SERVER, "flink.line").replace(".", "_")


def test_guides_name_no_other_versions():
    known = {"hushgram": OURS, "hushgram-jobserver": OURS, "stream": OURS, **sources()}
    known |= {f"apache/beam_flink{version(JOB_SERVER, 'flink.line')}_job_server": version(JOB_SERVER, "beam.version")}
    for guide in [*DEPLOY.rglob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md", *DOCKERFILES]:
        for name, tag in re.findall(r"([\w./-]+):v?(\d+\.\d+[\w.-]*)", guide.read_text()):
            named = known.get(name) or known.get(name.rpartition("/")[2])
            assert named == tag.rstrip("."), f"{relative(guide)}: {name}:{tag}"


def test_the_guide_installs_the_operator_that_the_manifests_are_written_for():
    guide, operator = (DEPLOY / "flink" / "README.md").read_text(), version(OPERATOR, "operator.version")
    assert f"/flink-kubernetes-operator-{operator}/" in guide
    assert f"operator-docs-stable/) {operator.rpartition('.')[0]}," in guide


def test_the_environment_is_the_pinned_one():
    from importlib import metadata

    assert metadata.version("apache-beam") == PINNED["apache-beam"]
    assert metadata.version("hushgram") == OURS
