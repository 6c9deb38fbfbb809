"""`python -m tests.brokered COMMAND...` runs it with a Kafka of its own, named as `--broker` at its
end; without one where the machine has none. For `make bench`: only tests know how to start one."""

import subprocess
import sys

from tests.servers import Kafka, MissingServer, own_server, stop_running


def main(command: list[str]) -> int:
    try:
        with own_server(Kafka) as kafka:
            return subprocess.run([*command, "--broker", kafka.url], check=False).returncode
    except MissingServer as missing:
        print(f"no relay is measured: {missing}", file=sys.stderr)
        return subprocess.run(command, check=False).returncode
    finally:
        stop_running()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
