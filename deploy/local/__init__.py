"""A Kafka broker and a Flink cluster on one machine, without containers: `python -m deploy.local --help`."""

from deploy.local.broker import Broker
from deploy.local.flink import Cluster
from deploy.local.jobs import Job
from deploy.local.processes import ProcessError
from deploy.local.tools import InstallError, ToolMissingError

__all__ = ["Broker", "Cluster", "InstallError", "Job", "ProcessError", "ToolMissingError"]
