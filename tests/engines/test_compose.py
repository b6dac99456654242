"""The commands of the compose file's Flink, run with the programs that are here: they start one."""

import json
from urllib.request import ProxyHandler, build_opener

import pytest

from devtools.flink import flink
from devtools.processes import HOST, Process, free_port, stop
from devtools.tools import need
from tests.helpers.deployments import load_compose
from tests.helpers.tools import run_or_skip


@pytest.fixture
def ports():
    run_or_skip(need, "java")
    return {"rest.port": free_port(), "jobmanager.rpc.port": free_port()}


@pytest.fixture
def run_service(tmp_path, ports):
    """Runs the command of a service; its folders, and the names of its network, are this machine's."""
    (tmp_path / "state").mkdir()
    processes = []
    replacements = {"/opt/flink/bin": str(flink() / "bin"), "=/tmp": f"={tmp_path}", "///state": f"//{tmp_path}/state"}
    replacements |= dict.fromkeys(["=jobmanager", "=taskmanager", "=0.0.0.0"], f"={HOST}")

    def run(name):
        command = [f"-D{setting}={port}" for setting, port in ports.items()]
        for word in reversed(load_compose()["services"][name]["command"]):
            for original, replacement in replacements.items():
                word = word.replace(original, replacement)
            command.insert(0, word)
        environment = {"FLINK_LOG_DIR": str(tmp_path / "log"), "FLINK_PID_DIR": str(tmp_path), "TMPDIR": str(tmp_path)}
        environment["JAVA_TOOL_OPTIONS"] = f"-Djava.io.tmpdir={tmp_path} -XX:-UsePerfData"
        processes.append(Process(command, tmp_path / f"{name}.log", environment))
        return processes[-1]

    yield run
    stop(processes)


def test_job_manager_and_task_manager_of_the_compose_file_find_each_other(run_service, ports):
    def ask(path):
        with build_opener(ProxyHandler({})).open(f"http://{HOST}:{ports['rest.port']}{path}", timeout=5) as answer:
            return json.load(answer)

    run_service("jobmanager").wait(lambda: ask("/overview"))
    run_service("taskmanager").wait(lambda: ask("/overview")["slots-total"] == 2)
    settings = {entry["key"]: entry["value"] for entry in ask("/jobmanager/config")}
    assert settings["restart-strategy.type"] == "exponential-delay"
    assert settings["state.checkpoints.dir"].endswith("/state/checkpoints")
