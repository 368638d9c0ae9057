# untrained on NVIDIA GPUs. Build it in the root of the repository:
#     docker build -f docker/cuda.Dockerfile -t untrained:cuda .
# The machine needs NVIDIA's driver and container toolkit; docs/how-to/docker.md shows how to use it.
FROM python:3.11-slim

WORKDIR /build
COPY constraints.txt ./
# The default build of torch brings CUDA's libraries; the driver comes from the machine. It is installed
# first, in a layer of its own, so that it is not downloaded again when the package changes.
RUN pip install --no-cache-dir --constraint constraints.txt torch

COPY pyproject.toml MANIFEST.in README.md CHANGELOG.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt '.[export]'

# Any user may run the image, so that results belong to the user who started it: `--user "$(id -u)"`.
# Downloaded data and tables are under /data, everything else that is cached is temporary.
ENV HOME=/tmp \
    UNTRAINED_DATA=/data \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN mkdir /data && chmod 1777 /data
VOLUME /data
WORKDIR /work
USER 1000:1000
ENTRYPOINT ["untrained"]
CMD ["--help"]
