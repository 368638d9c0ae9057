# untrained on a CPU. Build it in the root of the repository:
#     docker build -f docker/cpu.Dockerfile -t untrained .
# docs/how-to/docker.md shows how to use it.
FROM python:3.11-slim

WORKDIR /build
COPY constraints.txt ./
# The build of torch without CUDA is much smaller than the default one. It is installed first, in a layer
# of its own, so that it is not downloaded again when the package changes.
RUN pip install --no-cache-dir --constraint constraints.txt \
        --index-url https://download.pytorch.org/whl/cpu torch

COPY pyproject.toml MANIFEST.in README.md CHANGELOG.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt '.[export]'

# Any user may run the image, so that results belong to the user who started it: `--user "$(id -u)"`.
# Downloaded data and tables are under /data, everything else that is cached is temporary.
ENV HOME=/tmp \
    UNTRAINED_DATA=/data
RUN mkdir /data && chmod 1777 /data
VOLUME /data
WORKDIR /work
USER 1000:1000
ENTRYPOINT ["untrained"]
CMD ["--help"]
