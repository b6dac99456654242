"""Kafka, Flink, PostgreSQL, Prometheus and others on one machine, as processes without containers."""

from devtools.broker import Broker
from devtools.flink import Cluster
from devtools.iceberg_catalog import IcebergCatalog
from devtools.jobs import Job
from devtools.postgres import Postgres
from devtools.processes import ProcessError
from devtools.prometheus import Prometheus
from devtools.registry import Registry
from devtools.tools import InstallError, ToolMissingError

__all__ = [
    "Broker",
    "Cluster",
    "IcebergCatalog",
    "InstallError",
    "Job",
    "Postgres",
    "ProcessError",
    "Prometheus",
    "Registry",
    "ToolMissingError",
]
