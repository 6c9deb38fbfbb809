"""What is in deploy/ agrees with the program, as far as that can be seen without containers."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
import typer.main
import yaml  # type: ignore[import-untyped]

from holdfast.cli.commands import make_app
from holdfast.pages.site import Site
from holdfast.settings import PREFIX, Settings, load_settings
from tests.conftest import needed
from tests.servers import Postgres, Redis, own_server

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
VARIABLES = {PREFIX + name.upper() for name in Settings.__struct_fields__} | {PREFIX + "CONFIG"}
OTHERS = {"HOLDFAST_PUBLISHED_PORT", "HOLDFAST_DEBEZIUM_PASSWORD"}
"""What only compose.yaml itself and Debezium's connector read."""


def text_of(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def files() -> list[Path]:
    """Also those in folders."""
    found = [path for path in DEPLOY.rglob("*") if path.is_file()]
    assert DEPLOY / "debezium" / "connector.json" in found
    return found


def seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)s?", text)
    assert found, text
    return float(found[1])


def check_command(arguments: list[str]) -> None:
    """They are a command of ours, with options that it has."""
    name, *rest = arguments
    command: Any = typer.main.get_command(make_app())
    command = command.commands[name]
    command.make_context(name, list(rest))


def test_every_variable_is_a_setting():
    for path in files():
        named = set(re.findall(rf"{PREFIX}[A-Z_]+", path.read_text(encoding="utf-8")))
        assert named - VARIABLES - OTHERS == set(), path.name


def test_nothing_is_named_that_only_one_machine_has():
    for path in files():
        text = path.read_text(encoding="utf-8")
        assert str(ROOT) not in text
        assert not re.search(r"--(extra-)?index-url|--find-links", text), path.name


# The example of a settings file


@pytest.fixture
def uncommented() -> str:
    return re.sub(r"^#(\w+ = )", r"\1", text_of("holdfast.example.toml"), flags=re.MULTILINE)


def test_the_example_has_every_setting_with_its_default(uncommented):
    shown = tomllib.loads(uncommented)
    defaults = msgspec.structs.asdict(Settings())
    assert list(shown) == list(defaults)
    assert shown == defaults


def test_the_example_explains_every_setting(uncommented):
    lines = uncommented.splitlines()
    at = {line.split(" = ")[0]: nth for nth, line in enumerate(lines) if re.match(r"\w+ = ", line)}
    assert [name for name, nth in at.items() if not lines[nth - 1].startswith("# ")] == []


@pytest.mark.parametrize("all_of_it", [False, True])
def test_the_example_can_be_loaded(all_of_it, uncommented, tmp_path):
    file = tmp_path / "holdfast.toml"
    file.write_text(uncommented if all_of_it else text_of("holdfast.example.toml"))
    assert load_settings(environ={PREFIX + "CONFIG": str(file)}) == Settings()


# The image


def instructions() -> list[tuple[str, str]]:
    lines = text_of("Dockerfile").replace("\\\n", " ").splitlines()
    split = (line.split(None, 1) for line in lines if line and not line.startswith("#"))
    return [(name, rest) for name, rest in split]


def values(instruction: str) -> list[str]:
    return [rest for name, rest in instructions() if name == instruction]


def test_what_the_image_copies_is_there_and_is_sent_to_the_engine():
    ignore = text_of("Dockerfile.dockerignore").splitlines()
    assert ignore[1] == "*"
    copied = [rest.split()[:-1] for rest in values("COPY") if not rest.startswith("--from")]
    for source in [each for sources in copied for each in sources]:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignore


def test_the_image_builds_the_pages_itself():
    """With Node.js as new as they ask for, and not with what lies about on this machine."""
    package = json.loads((ROOT / "web" / "package.json").read_text(encoding="utf-8"))
    major = int(re.findall(r"\d+", package["engines"]["node"])[0])
    [node] = [rest for rest in values("ARG") if rest.startswith("NODE=")]
    assert int(node.removeprefix("NODE=")) > major
    dist = Site().folder.relative_to(ROOT)
    ignore = text_of("Dockerfile.dockerignore").splitlines()
    assert {"web/node_modules", str(dist)} <= set(ignore)
    assert f"--from=pages /build/{dist} {dist}" in values("COPY")


def test_what_builds_the_pages_is_locked_for_every_system():
    """npm leaves out of the lock what its registry did not have for another system, and `npm ci`
    then refuses it everywhere: what is optional has to be there too."""
    text = (ROOT / "web" / "package-lock.json").read_text(encoding="utf-8")
    assert "resolved" not in text  # from which host it came is not for everybody
    packages = json.loads(text)["packages"]
    for name, package in packages.items():
        assert not name or package.get("optional") or package["integrity"].startswith("sha512-")
        for other in package.get("optionalDependencies", {}):
            assert f"node_modules/{other}" in packages, other


def test_the_image_runs_as_nobody_in_particular_and_can_be_watched_and_stopped():
    assert values("USER") == ["holdfast"]
    assert values("EXPOSE") == [str(Settings().port)]
    assert values("STOPSIGNAL") == ["SIGTERM"]
    [health] = values("HEALTHCHECK")
    assert "/healthz" in health
    [entry], [command] = values("ENTRYPOINT"), values("CMD")
    assert entry == '["holdfast"]'
    check_command(msgspec.json.decode(command, type=list[str]))


def locked(name: str) -> dict[str, str]:
    """Each package of a lock: its version and its hashes. Not on which systems it is needed: what
    only tests need may need it on more of them."""
    path = ROOT / name
    logical = path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    pins = [line for line in logical if line and not line.lstrip().startswith("#")]
    bare = [re.sub(r" ;.*?(?= --hash)", "", " ".join(line.split())) for line in pins]
    return {line.split("==")[0]: line for line in bare}


def test_the_image_gets_what_was_tested_and_nothing_that_only_tests_need():
    tested = locked("requirements.lock")
    shipped = locked("deploy/requirements.txt")
    assert {name: tested.get(name) for name in shipped} == shipped, "make lock"
    assert all("--hash=" in pin for pin in shipped.values())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = {name_of(each) for each in requirements(project)} - {"holdfast"}
    assert wanted <= shipped.keys(), "make lock"
    development = {name_of(each) for each in project["dependency-groups"]["dev"]}
    assert development & shipped.keys() == set()


def test_what_builds_the_image_is_locked():
    tested = locked("requirements.lock")
    built = locked("deploy/build-requirements.txt")
    assert {name: tested.get(name) for name in built} == built, "make lock"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert {name_of(each) for each in project["build-system"]["requires"]} <= built.keys()


def requirements(project: dict[str, Any]) -> list[str]:
    extras = project["project"]["optional-dependencies"].values()
    return [*project["project"]["dependencies"], *(each for extra in extras for each in extra)]


def name_of(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found
    return found[0].lower()


# The wheel


def wheel(folder: Path, source: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    """Made by what is installed, from what is there."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    environment = {**os.environ, "PATH": "/nowhere"}  # nothing may be built on the side
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)


@pytest.mark.skipif(not Site().built, reason="the pages are not built: make web")
def test_the_wheel_carries_the_pages(tmp_path):
    made = wheel(tmp_path)
    assert made.returncode == 0, made.stderr
    [file] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(file) as packed:
        names = set(packed.namelist())
    dist = Site().folder
    built = {path.relative_to(ROOT / "src") for path in dist.rglob("*") if path.is_file()}
    assert {path.as_posix() for path in built} <= names
    assert "holdfast/stores/sqlite/queries.sql" in names
    assert not [name for name in names if not name.startswith("holdfast")]


def test_a_wheel_without_pages_is_not_made_and_one_line_says_why(tmp_path):
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    package = tmp_path / "src" / "holdfast"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    made = wheel(tmp_path / "out", tmp_path)
    assert made.returncode == 1
    assert made.stderr == ("The pages are not built, and there is no npm: install Node.js first\n")


# Compose


@pytest.fixture
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(text_of("compose.yaml"))
    return loaded


def test_compose_has_the_service_what_it_needs_and_nothing_by_default_that_it_does_not(compose):
    services = compose["services"]
    assert services.keys() == {"migrate", "serve", "worker", "postgres", "redis", "kafka"}
    assert [name for name, each in services.items() if "profiles" in each] == ["kafka"]
    for name, service in services.items():
        assert "healthcheck" in service or name == "serve"  # whose image has one
        for volume in service.get("volumes", ()):
            assert volume.split(":")[0] in compose["volumes"]
        for other in service.get("depends_on", ()):
            assert other in services


def test_compose_runs_commands_that_there_are(compose):
    for name in ("migrate", "serve", "worker"):
        check_command(compose["services"][name]["command"])
    assert compose["services"]["serve"]["command"][1:3] == ["--workers", "2"]


def test_compose_migrates_before_it_serves(compose):
    for name in ("serve", "worker"):
        until = compose["services"][name]["depends_on"]["migrate"]["condition"]
        assert until == "service_completed_successfully"


def test_compose_builds_from_files_that_there_are(compose):
    build = compose["services"]["serve"]["build"]
    context = (DEPLOY / build["context"]).resolve()
    assert context == ROOT
    assert (context / build["dockerfile"]).exists()


def test_compose_gives_time_to_stop(compose):
    assert seconds(compose["services"]["serve"]["stop_grace_period"]) > Settings().stop_seconds


def test_compose_publishes_to_this_machine_alone_and_keeps_no_secret(compose):
    published = [port for each in compose["services"].values() for port in each.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    asked = dict(re.findall(r"\$\{(\w+)(:[?-])", text_of("compose.yaml")))
    example = dict(re.findall(r"^(\w+)=(.*)$", text_of(".env.example"), flags=re.MULTILINE))
    assert asked.keys() == example.keys()
    secret = {name for name, how in asked.items() if how == ":?"}
    assert {name: example[name] for name in secret} == dict.fromkeys(secret, "")


def environment_of(compose: dict[str, Any]) -> dict[str, str]:
    """As it is where every secret is `sixteen-letters-` and nothing else was filled in."""
    given = compose["services"]["serve"]["environment"]
    filled = {name: re.sub(r"\$\{\w+:\?[^}]*\}", "sixteen-letters-", given[name]) for name in given}
    return {name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", filled[name]) for name in filled}


def test_the_settings_of_compose_are_taken(compose):
    settings = load_settings(environ=environment_of(compose))
    assert settings.store == "postgresql://holdfast:sixteen-letters-@postgres:5432/holdfast"
    assert settings.policy == "two-layer"


@pytest.mark.service
@pytest.mark.slow
def test_what_compose_runs_serves_and_stops_in_order(compose, tmp_path):
    """Its commands and settings, on real servers, without the containers around them."""
    with ExitStack() as stack:
        postgres = needed(lambda: stack.enter_context(own_server(Postgres)))
        redis = needed(lambda: stack.enter_context(own_server(Redis)))
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(PREFIX)},
            **environment_of(compose),
            "HOLDFAST_STORE": postgres.url,
            "HOLDFAST_GATE": redis.url,
            "HOLDFAST_PORT": "0",
        }

        def start(name: str) -> "subprocess.Popen[str]":
            command = [sys.executable, "-m", "holdfast", *compose["services"][name]["command"]]
            process = subprocess.Popen(
                command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        assert start("migrate").wait(60) == 0
        serve, worker = start("serve"), start("worker")
        assert serve.stdout is not None
        assert worker.stdout is not None
        found = re.search(r"serves (http://\S+)", serve.stdout.readline())
        assert found
        key = {"Authorization": "Bearer sixteen-letters-"}
        system = requests.get(f"{found[1]}/v1/system", headers=key, timeout=10).json()
        assert (system["gate_state"], system["policy"], system["workers"]) == ("up", "two-layer", 2)
        assert requests.get(f"{found[1]}/readyz", timeout=10).ok
        assert worker.stdout.readline().startswith("Looking after")
        for process in (serve, worker):
            process.terminate()
            assert process.wait(45) == 0


# systemd


class Unit(configparser.RawConfigParser):
    def __init__(self) -> None:
        super().__init__(strict=False, interpolation=None)
        self.optionxform = str  # type: ignore[assignment,method-assign]
        self.read_string(text_of("holdfast.service"))


def test_the_unit_starts_a_command_that_there_is():
    program, *arguments = shlex.split(Unit()["Service"]["ExecStart"])
    assert Path(program).name == "holdfast"
    check_command(arguments)


def test_the_unit_reloads_stops_and_limits_as_the_service_needs_it():
    service = Unit()["Service"]
    assert service["Type"] == "exec"
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["KillMode"] == "mixed"
    assert seconds(service["TimeoutStopSec"]) > Settings().stop_seconds
    assert int(service["LimitNOFILE"]) >= 65_536
    assert service["User"] != "root"
    assert service["EnvironmentFile"] == "/etc/holdfast/environment"
