FROM python:3.13-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY prompts prompts
COPY patterns patterns
COPY fsm_definitions fsm_definitions
COPY docs/LLM_GUIDE.md docs/LLM_GUIDE.md
RUN python -m venv /opt/llm-fsm && /opt/llm-fsm/bin/pip install --no-cache-dir '.[server,mcp,otel,postgres]'

FROM python:3.13-slim
RUN useradd --uid 10001 --create-home bot && install -d -o bot /data
COPY --from=build /opt/llm-fsm /opt/llm-fsm
ENV PATH=/opt/llm-fsm/bin:$PATH PYTHONUNBUFFERED=1 LLM_FSM_HOME=/data
USER bot
WORKDIR /data
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
ENTRYPOINT ["llm-fsm"]
# The image serves on its own loopback until a token file is mounted: see docs/deploy.md.
CMD ["serve", "--log", "json"]
