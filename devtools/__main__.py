"""A Kafka broker and a Flink cluster on this machine, without containers."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path

from devtools.beam import boot, prism
from devtools.broker import Broker, kafka
from devtools.flink import Cluster, Ports, flink, job_server
from devtools.iceberg_catalog import catalog_jars
from devtools.processes import ProcessError, Service
from devtools.registry import apicurio
from devtools.tools import InstallError, ToolMissingError, tools_folder


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m devtools", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    defaults = argparse.ArgumentDefaultsHelpFormatter
    install_ = commands.add_parser("install", help="fetch and build all programs, once", formatter_class=defaults)
    up_ = commands.add_parser("up", help="start everything, and stop it on Ctrl-C", formatter_class=defaults)
    for subparser in (install_, up_):
        subparser.add_argument("--tools", type=Path, default=tools_folder(), help="where programs are kept")
    up_.add_argument("--dir", type=Path, default=Path(".run"), help="for logs and data; both stay")
    up_.add_argument("--state", type=Path, metavar="DIR", help="for checkpoints and savepoints, if not below --dir")
    ports = {"kafka": "Kafka clients connect to", "controller": "the broker's controller is on"}
    for part, purpose in {**ports, **{port.name: port.metadata["what"] for port in fields(Ports)}}.items():
        up_.add_argument(f"--{part}-port", type=int, default=0, metavar="PORT", help=f"the port that {purpose}; 0: any")
    up_.add_argument(
        "--task-manager-ports", type=int, default=0, metavar="PORT", help="first of three for each TaskManager; 0: any"
    )
    up_.add_argument(
        "--topic", action="append", default=[], metavar="NAME", help="a topic to create, of four partitions; repeatable"
    )
    up_.add_argument("--task-managers", type=int, default=2, metavar="N", help="how many Flink TaskManagers")
    up_.add_argument("--slots", type=int, default=2, metavar="N", help="how many subtasks each of them can run")
    up_.add_argument("--high-availability", action="store_true", help="jobs outlive the JobManager: with a ZooKeeper")
    up_.add_argument(
        "--set",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="a setting of Flink's; repeatable",
    )
    up_.add_argument("--log-level", default="INFO", help="of the Python workers")
    exclusive = up_.add_mutually_exclusive_group()
    exclusive.add_argument("--no-flink", action="store_true", help="Kafka only")
    exclusive.add_argument("--no-kafka", action="store_true", help="Flink only")
    return parser.parse_args(argv)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed: such as state.backend.type=rocksdb")
    return name, value


def install(options: argparse.Namespace) -> None:
    for tool in (kafka, apicurio, flink, job_server, prism, boot, catalog_jars):
        print(f"{tool.__name__.replace('_', ' '):12}  {tool(options.tools)}", flush=True)


def up(options: argparse.Namespace) -> None:
    """Runs until it is interrupted, or until a part of it ends, which raises."""
    with ExitStack() as stack:
        services: list[Service] = []
        if not options.no_kafka:
            broker = Broker(
                options.dir / "kafka",
                port=options.kafka_port,
                controller_port=options.controller_port,
                tools=options.tools,
            )
            services.append(stack.enter_context(broker))
            for topic in options.topic:
                if not broker.has_topic(topic):
                    broker.create_topic(topic, 4)
            print(f"Kafka        {broker.address}", flush=True)
        if not options.no_flink:
            cluster = Cluster(
                options.dir / "flink",
                task_managers=options.task_managers,
                slots=options.slots,
                ports=Ports(**{port.name: getattr(options, f"{port.name}_port") for port in fields(Ports)}),
                task_manager_ports=options.task_manager_ports,
                high_availability=options.high_availability,
                state=options.state,
                settings=dict(options.set),
                log_level=options.log_level,
                tools=options.tools,
            )
            services.append(stack.enter_context(cluster))
            print(f"Flink        http://{cluster.address}")
            print(f"job server   {cluster.job_endpoint}")
            print(f"worker pool  {cluster.pool}")
            print(f"for a pipeline:\n  {' '.join(cluster.options())}", flush=True)
        print(f"logs are in {options.dir}; Ctrl-C stops everything", flush=True)
        while True:
            for service in services:
                service.check()
            time.sleep(0.5)


def main(argv: Sequence[str] | None = None) -> int:
    options = parse_arguments(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        {"install": install, "up": up}[options.command](options)
    except KeyboardInterrupt:
        print("stopped", flush=True)
        return 0 if options.command == "up" else 130
    except (ToolMissingError, InstallError, ProcessError) as error:
        print(f"devtools: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
