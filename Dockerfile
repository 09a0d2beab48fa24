# A defence behind HTTP, as an ordinary user. See docs/deploy.md.
FROM python:3.11-slim

RUN useradd --create-home --uid 10001 alu && mkdir /state && chown alu:alu /state
WORKDIR /opt/alu
COPY pyproject.toml constraints.txt README.md ./
COPY src ./src
# The CPU build of torch; for a GPU, take an index with CUDA builds of the same version.
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu -c constraints.txt torch \
 && pip install --no-cache-dir -c constraints.txt '.[serve]'

USER alu
VOLUME /state
EXPOSE 8000
ENV PYTHONDONTWRITEBYTECODE=1
HEALTHCHECK --start-period=120s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=5)"]
# Needs the variable ALU_KEY, and a saved defence in /defense; or give another name: docker run ... alu demo@5
ENTRYPOINT ["alu", "serve", "--host", "0.0.0.0", "--state", "/state/monitor.json", "--audit", "/state/audit.jsonl"]
CMD ["/defense"]
