"""One thread of the numerical libraries a process, as the local engine has it in its workers.

Import it before NumPy: they read their settings once.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
