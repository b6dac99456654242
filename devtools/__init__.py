"""A Kafka broker, a Flink cluster, a PostgreSQL server and a Prometheus on one machine, without containers."""

from devtools.broker import Broker
from devtools.flink import Cluster
from devtools.jobs import Job
from devtools.postgres import Postgres
from devtools.processes import ProcessError
from devtools.prometheus import Prometheus
from devtools.tools import InstallError, ToolMissingError

__all__ = ["Broker", "Cluster", "InstallError", "Job", "Postgres", "ProcessError", "Prometheus", "ToolMissingError"]
