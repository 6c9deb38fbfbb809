"""Kafka Connect with Debezium's connector, run with the configuration that is documented. Fetched
with Maven when a test first asks for it: `make test` does not."""

import json
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.servers import NO_JAVA, Kafka, MissingServer, Postgres, Server, cache, found_program

POMS = Path(__file__).parent / "debezium"
DEPLOY = Path(__file__).parents[2] / "deploy" / "debezium"
FETCH_SECONDS = 600


def jars(name: str) -> Path:
    """The folder of what a pom names."""
    pom = POMS / f"{name}.xml"
    artifact, version = (
        ElementTree.parse(pom).findtext(f"{{*}}{each}") for each in ("artifactId", "version")
    )
    folder = cache() / f"{artifact}-{version}"
    if not folder.is_dir():
        if not (maven := shutil.which("mvn")):
            raise MissingServer("Debezium: apt-get install maven")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as making:
            made = Path(making) / "jars"
            where = ["-f", str(pom), f"-DoutputDirectory={made}"]
            fetch = [maven, "-B", "-q", "-C", *where, "dependency:copy-dependencies"]
            if subprocess.run(fetch, check=False, timeout=FETCH_SECONDS).returncode:
                raise MissingServer("Debezium: Maven could not fetch it")
            made.chmod(0o755)
            made.rename(folder)
    return folder


class Connect(Server):
    """A worker alone, with the one connector."""

    name = "Kafka Connect"

    def __init__(self, folder: Path, kafka: Kafka, postgres: Postgres) -> None:
        super().__init__(folder)
        self.java = found_program("java", NO_JAVA)
        self.worker, connector = jars("worker"), jars("connector")
        plugins = folder / "plugins"
        plugins.mkdir()
        (plugins / "debezium").symlink_to(connector)
        settings = {
            "bootstrap.servers": f"127.0.0.1:{kafka.port}",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "500",
            "plugin.path": str(plugins),
            "plugin.discovery": "service_load",
            "listeners": f"http://127.0.0.1:{self.port}",
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        (folder / "worker.properties").write_text(text)
        given: dict[str, Any] = json.loads((DEPLOY / "connector.json").read_text())
        given["config"] |= {
            "database.hostname": "127.0.0.1",
            "database.port": str(postgres.port),
            "database.dbname": "postgres",
            "database.password": "any: the server trusts whoever is here",
        }
        (folder / "connector.json").write_text(json.dumps(given))
        self.connector = given["name"]

    def command(self) -> list[str]:
        return [
            *(self.java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-XX:-UsePerfData", f"-Djava.io.tmpdir={self.folder}", "-cp", f"{self.worker}/*"),
            "org.apache.kafka.connect.cli.ConnectStandalone",
            *(str(self.folder / name) for name in ("worker.properties", "connector.json")),
        ]

    def answers(self) -> bool:
        """That the connector's task runs."""
        status = f"http://127.0.0.1:{self.port}/connectors/{self.connector}/status"
        try:
            with urllib.request.urlopen(status, timeout=5) as said:
                tasks = json.load(said)["tasks"]
        except (urllib.error.URLError, OSError):
            return False
        assert not any(task["state"] == "FAILED" for task in tasks), tasks
        return bool(tasks) and all(task["state"] == "RUNNING" for task in tasks)
