# chronica_hvd in a container, for EC2 or any host. What is built is built by launch/setup, as on a machine.
#
#   docker build -t chronica .                                            CPU
#   docker build -t chronica --build-arg BASE=nvidia/cuda:13.0.2-devel-ubuntu24.04 \
#                            --build-arg RUNTIME=nvidia/cuda:13.0.2-base-ubuntu24.04 .    CUDA (not yet tried)
#   docker run --rm --shm-size=1g -v "$PWD":/home/chronica/work -w /home/chronica/work \
#     chronica run -np 2 -- python train.py
#
# TORCH is launch/setup's --torch. Where the package index holds only CUDA builds, a small CPU image wants
# TORCH=2.13.0+cpu and PyTorch's own CPU index as PIP_EXTRA_INDEX_URL, both as --build-arg.
ARG BASE=debian:bookworm-slim
ARG RUNTIME=${BASE}

FROM ${BASE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
      build-essential ca-certificates python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/chronica
COPY . .
ARG TORCH=2.13.0
ARG PIP_EXTRA_INDEX_URL
RUN --mount=type=cache,target=/root/.cache launch/setup --torch "$TORCH" || { cat build/setup.log; exit 1; }
RUN rm -rf build .venv/lib/python3*/site-packages/torch/test .venv/lib/python3*/site-packages/torch/include \
    && .venv/bin/pip uninstall -q -y cmake # a quarter of a GB that only building needs

FROM ${RUNTIME}
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates openssh-client python3 \
    && apt-get clean && rm -rf /var/lib/apt/lists/* && useradd --create-home chronica
COPY --from=build /opt/chronica /opt/chronica
# containers forbid the ptrace call by which Open MPI copies between processes
ENV PATH=/opt/chronica/.venv/bin:$PATH OMPI_MCA_btl_vader_single_copy_mechanism=none
USER chronica
WORKDIR /home/chronica
ENTRYPOINT ["chronica"]
CMD ["--help"]
