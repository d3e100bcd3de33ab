# Proximo and its command line on Python's own image; packages come from PyPI alone.
#
#   docker build -t proximo .
#   docker run --rm -v "$PWD/runs:/home/proximo/runs" proximo train CartPole-v1
#
# TORCH_INDEX names the package index of PyTorch's CPU builds, a far smaller download than CUDA's; EXTRAS what to add.
FROM python:3.11-slim

ARG TORCH_INDEX=""
ARG EXTRAS="classic,video,tensorboard"

COPY pyproject.toml constraints.txt README.md LICENSE /source/
COPY src /source/src
RUN pip install --no-cache-dir -c /source/constraints.txt ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} \
        "/source[$EXTRAS]" \
    && rm -r /source \
    && useradd --create-home proximo

USER proximo
WORKDIR /home/proximo
# kernels are compiled while the image is built, not by every container
RUN proximo train CartPole-v1 --steps 1024 --eval-episodes 1 --runs-dir /tmp/runs && rm -r /tmp/runs

ENTRYPOINT ["proximo"]
CMD ["--help"]
