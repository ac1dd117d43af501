# Isotherm's image: built with a compiler, run without one, as a user that owns nothing but /data.
#   docker build -t isotherm .
#   docker run -p 9000:9000 -p 9001:9001 -v isotherm:/data isotherm
FROM python:3.11-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY gateway gateway
COPY tiers tiers
COPY metadata metadata
RUN python -m venv /opt/isotherm \
 && /opt/isotherm/bin/pip install --no-cache-dir -c requirements.lock 'setuptools>=80' wheel \
 && /opt/isotherm/bin/pip install --no-cache-dir -c requirements.lock --no-build-isolation '.[postgres]' \
 && /opt/isotherm/bin/pip uninstall -y setuptools wheel pip

FROM python:3.11-slim-bookworm
RUN groupadd --gid 10001 isotherm \
 && useradd --uid 10001 --gid isotherm --no-create-home --home-dir /data --shell /usr/sbin/nologin isotherm \
 && install -d -o isotherm -g isotherm -m 0700 /data
COPY --from=build /opt/isotherm /opt/isotherm
ENV PATH=/opt/isotherm/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    ISOTHERM_DATA=/data \
    ISOTHERM_SERVER__HOST=0.0.0.0 \
    ISOTHERM_SERVER__ADMIN_HOST=0.0.0.0 \
    ISOTHERM_ACCESS_LOG=-
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 9000 9001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9000/health/ready', timeout=4)"]
ENTRYPOINT ["isotherm"]
CMD ["serve"]
