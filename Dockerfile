# Proximo and its command line on Python's own image; packages come from PyPI alone.
#
#   docker build --build-arg USER_ID="$(id -u)" -t proximo .
#   mkdir -p runs    # Docker would make it root's
#   docker run --rm -v "$PWD/runs:/home/proximo/runs" proximo train CartPole-v1
#
# USER_ID is the number of the user, not root, who trains and to whom the runs belong. TORCH_INDEX names the package index
# of PyTorch's CPU builds, a far smaller download than CUDA's; EXTRAS what to add.
FROM python:3.11-slim

ARG TORCH_INDEX=""
ARG EXTRAS="classic,video,tensorboard"

COPY pyproject.toml constraints.txt README.md LICENSE /source/
COPY src /source/src
RUN pip install --no-cache-dir -c /source/constraints.txt ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} \
        "/source[$EXTRAS]" \
    && rm -r /source

ARG USER_ID=1000
RUN useradd --create-home --uid "$USER_ID" proximo
USER proximo
WORKDIR /home/proximo
# kernels are compiled while the image is built, not by every container; a new volume is as its folder here: proximo's
RUN mkdir runs && proximo train CartPole-v1 --steps 1024 --eval-episodes 1 --runs-dir /tmp/runs && rm -r /tmp/*

ENTRYPOINT ["proximo"]
CMD ["--help"]
