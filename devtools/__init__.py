"""A Kafka broker, a schema registry, a Flink cluster and a PostgreSQL server on one machine, without containers."""

from devtools.broker import Broker
from devtools.flink import Cluster
from devtools.jobs import Job
from devtools.postgres import Postgres
from devtools.processes import ProcessError
from devtools.registry import Registry
from devtools.tools import InstallError, ToolMissingError

__all__ = ["Broker", "Cluster", "InstallError", "Job", "Postgres", "ProcessError", "Registry", "ToolMissingError"]
