"""`python -m marathon_cli` is `mesos-gpu`."""

from marathon_cli.main import main

if __name__ == "__main__":
    main()
