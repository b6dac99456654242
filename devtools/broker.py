"""A Kafka broker that is its own controller."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from devtools.processes import HOST, Service, eventually, free_port, listening
from devtools.tools import install, need, run, version

POM = Path(__file__).parent / "kafka" / "pom.xml"

SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "CLIENTS",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "num.network.threads": 2,
    "num.io.threads": 2,
    "log.segment.bytes": 1 << 26,
    # A name that is mistyped is an error, not a new topic.
    "auto.create.topics.enable": "false",
    # Producers set event times, which may be years old: such stamps are accepted, and such data kept.
    "log.retention.ms": -1,
    "log.retention.bytes": -1,
    "log.message.timestamp.before.max.ms": (1 << 63) - 1,
    "log.message.timestamp.after.max.ms": (1 << 63) - 1,
    # After kill -9 the old session has to lapse before the broker may register again.
    "broker.session.timeout.ms": 2000,
    "broker.heartbeat.interval.ms": 500,
}


def kafka(folder: Path | None = None) -> Path:
    """The folder of the broker's jars."""

    def build(target: Path) -> None:
        need("java", "mvn")
        run(["mvn", "--quiet", "--batch-mode", "-f", POM, "dependency:copy-dependencies", f"-Doutput={target}"])

    return install(f"kafka-{version(POM, 'kafka.version')}", build, folder)


class Broker(Service):
    """One broker on loopback; data and log stay in `directory`.

    `properties` are added to the server's own, and `client` to what our own client needs to speak to it. For passwords:
    `listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT` and the `listener.name.clients.*` ones.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        controller_port: int = 0,
        properties: Mapping[str, object] | None = None,
        client: Mapping[str, Any] | None = None,
        heap: str = "512m",
        tools: Path | None = None,
    ) -> None:
        super().__init__(directory)
        self.address, self._controller = (f"{HOST}:{number or free_port()}" for number in (port, controller_port))
        self._properties, self._client, self._heap, self._tools = properties or {}, client or {}, heap, tools

    def kill(self) -> None:
        """kill -9. The data stays, and start() brings the broker back on the same port."""
        while self.processes:
            self.processes.pop().kill()

    def has_topic(self, name: str) -> bool:
        return name in self._admin().list_topics(timeout=30).topics

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> str:
        """Returns when every partition can be written to; `config` are topic settings, such as `retention.ms`."""
        admin = self._admin()
        is_new = name not in admin.list_topics(timeout=30).topics
        try:
            admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(30)
        except KafkaException as error:
            # On a busy machine a request that was carried out may be repeated before its answer comes.
            if not is_new or error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        eventually(f"leaders of topic {name}", lambda: self._has_leaders(admin, name), 30)
        return name

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Returns when the topic has this many partitions, and every one of them can be written to."""
        admin = self._admin()
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)

        def can_be_written_to() -> bool:
            found = admin.list_topics(topic, timeout=5).topics[topic].partitions
            return len(found) == partitions and self._has_leaders(admin, topic)

        eventually(f"new partitions of topic {topic}", can_be_written_to, 30)

    def _start(self) -> None:
        settings = self._settings()
        process = self.run("kafka", self._java(self._heap, "kafka.Kafka", settings))
        # Ask the socket first: a client whose connection was refused waits ever longer before it tries again.
        process.wait(lambda: listening(self.address) and self._has_leaders(self._admin()))

    def _settings(self) -> Path:
        """The server's properties, and on the first start the formatted storage."""
        data, path = self.directory / "data", self.directory / "server.properties"
        properties = {
            **SINGLE_NODE,
            "listeners": f"CLIENTS://{self.address},CONTROLLER://{self._controller}",
            "advertised.listeners": f"CLIENTS://{self.address}",
            "controller.quorum.voters": f"1@{self._controller}",
            "log.dirs": data,
            **self._properties,
        }
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        if not (data / "meta.properties").exists():
            # The tool takes an id that begins with a dash for an option.
            cluster = "A" + urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
            command = self._java("128m", "kafka.tools.StorageTool", "format", "-t", cluster, "-c", path)
            run(command)
        return path

    def _java(self, heap: str, *arguments: str | Path) -> list[str | Path]:
        need("java")
        log_level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        timestamps = "-Dorg.slf4j.simpleLogger.showDateTime=true"
        return [
            "java",
            f"-Xmx{heap}",
            "-XX:+UseSerialGC",
            log_level,
            timestamps,
            "-cp",
            f"{kafka(self._tools)}/*",
            *arguments,
        ]

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address, "log_level": 0, **self._client})

    def _has_leaders(self, admin: AdminClient, topic: str | None = None) -> bool:
        """The broker answers, and every partition has a leader; after a create or a start that takes a moment."""
        try:
            metadata = admin.list_topics(topic, timeout=5) if topic else admin.list_topics(timeout=5)
        except KafkaException:
            return False
        topics = metadata.topics.values()
        return bool(metadata.brokers) and all(
            topic_metadata.error is None
            and all(partition.leader >= 0 for partition in topic_metadata.partitions.values())
            for topic_metadata in topics
        )
