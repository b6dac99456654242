"""`make live-demo`: a page that asks for a number, a collector, an engine, and the distribution of all visitors, live."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from devtools.beam import prism
from devtools.broker import Broker
from devtools.flink import Cluster
from devtools.processes import HOST, Process, ProcessError, free_port, stop
from devtools.tools import ROOT, InstallError, ToolMissingError
from devtools.typescript_client import build_typescript
from hushgram import Collection, parse_collections
from hushgram.pipelines.cli.console import complain, say
from hushgram.schemas.writer import encode_report_messages
from hushgram.schemas.columns import Labels

PAGE = ROOT / "examples" / "live"
COLLECTIONS = PAGE / "collections.yaml"
COLLECTION = "sleep"
KINDS = {"html": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript", "json": "application/json"}
