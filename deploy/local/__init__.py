"""A Kafka broker, a Flink cluster and a PostgreSQL server on one machine, without containers."""

from deploy.local.broker import Broker
from deploy.local.flink import Cluster
from deploy.local.jobs import Job
from deploy.local.postgres import Postgres
from deploy.local.processes import ProcessError
from deploy.local.tools import InstallError, ToolMissingError

__all__ = ["Broker", "Cluster", "InstallError", "Job", "Postgres", "ProcessError", "ToolMissingError"]
