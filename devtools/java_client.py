"""The client for Java, built by Maven when its sources have changed."""

from __future__ import annotations

from pathlib import Path

from devtools.tools import ROOT, digest, install, need, run

CLIENT = ROOT / "clients" / "java"
POM = CLIENT / "pom.xml"


def java_client(folder: Path | None = None) -> Path:
    """The folder of `hushgram-client.jar`, and of `test-classes` with what tests of its storage need."""

    def build(target: Path) -> None:
        need("java", "mvn")
        run(["mvn", "--quiet", "--batch-mode", "-f", POM, "package", "-DskipTests", f"-Doutput={target}"])

    return install(f"java-client-{digest([POM, *CLIENT.glob('src/**/*.java')])}", build, folder)


def java_command(main_class: str, folder: Path | None = None) -> list[str]:
    """Starts a class of the client."""
    need("java")
    home = java_client(folder)
    path = f"{home / 'hushgram-client.jar'}:{home / 'test-classes'}"
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", path, f"hushgram.client.{main_class}"]
