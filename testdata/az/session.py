"""Runs commands of the Azure CLI one after another in one process: most of a command's time is its start.

session.py FOLDER answers until it is asked for nothing: the arguments come through the pipe FOLDER/ask, each ended by a NUL. The output
goes to the file FOLDER/said, and then the exit code to the pipe FOLDER/code. Each command gets a CLI of its own, as az makes it.
"""
import os
import sys
import time
import traceback

from azure.cli.core import get_default_cli

# The CLI waits at least a second for an operation. Here operations end sooner.
sleep = time.sleep
time.sleep = lambda seconds: sleep(seconds / 20)

folder = sys.argv[1]
while True:
    with open(os.path.join(folder, "ask"), "rb") as pipe:
        arguments = pipe.read().decode().split("\0")[:-1]
    if not arguments:
        break
    with open(os.path.join(folder, "said"), "wb") as said:
        os.dup2(said.fileno(), 1)  # the CLI keeps the sys.stdout of its start
    try:
        code = get_default_cli().invoke(arguments)
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
    except Exception:  # the next command can still be asked for
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    with open(os.path.join(folder, "code"), "w", encoding="utf-8") as pipe:
        pipe.write("%d\n" % code)
