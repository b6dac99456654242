"""A Kafka broker, a Flink cluster, a PostgreSQL server and an Iceberg catalogue on one machine, without containers."""

from devtools.broker import Broker
from devtools.flink import Cluster
from devtools.iceberg_catalog import IcebergCatalog
from devtools.jobs import Job
from devtools.postgres import Postgres
from devtools.processes import ProcessError
from devtools.tools import InstallError, ToolMissingError

__all__ = ["Broker", "Cluster", "IcebergCatalog", "InstallError", "Job", "Postgres", "ProcessError", "ToolMissingError"]
