"""Call the public platform's program as its starter does; what it needs to know is in the environment.

usage: rca.py ARGUMENT...
"""

import sys

from rcabench_platform.v3.cli.main import main

sys.argv[0] = "rca"
sys.exit(main())
