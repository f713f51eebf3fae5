# The labelling page in a container:
#
#     docker build -t steepest .
#     docker run -p 127.0.0.1:8433:8433 -v "$PWD/photos:/photos" steepest --classes cat,dog
#
# Labels, models and the token are kept in the mounted folder, in photos/.steepest. The user in the container has the
# number 1000; give another one with `docker run --user`.
FROM python:3.12-slim

# For a CPU build of torch, name an index that has one: --build-arg PIP_EXTRA_INDEX_URL=…
ARG PIP_EXTRA_INDEX_URL=""
ENV PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
# pyproject.toml bounds the versions.
# hadolint ignore=DL3013
RUN pip install '.[label]' && rm -rf /src \
    && useradd --uid 1000 --create-home steepest \
    && mkdir /photos && chown steepest /photos

USER 1000
WORKDIR /photos
VOLUME /photos
EXPOSE 8433
# Any answer will do: without its token the page refuses, and that shows that it is up.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 8433, timeout=4); c.request('GET', '/'); c.getresponse()"]
ENTRYPOINT ["steepest", "label", "/photos", "--host", "0.0.0.0", "--port", "8433"]
