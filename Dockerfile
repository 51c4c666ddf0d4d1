# syntax=docker/dockerfile:1

# The program links SQLite, which is C: it is built here, and static, so that the image
# needs no C library. The version it tells is that of the git tag or commit, which is why
# .dockerignore keeps .git and everything that git knows.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod \
    go mod download
COPY . .
# netgo and osusergo: names and users are looked up without the C library, which could
# not be linked statically for that. sqlite_omit_load_extension: nor for extensions.
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=1 go build -trimpath \
      -tags netgo,osusergo,sqlite_omit_load_extension \
      -ldflags "-s -w -linkmode external -extldflags -static" \
      -o /out/ratelimitlog ./cmd/ratelimitlog \
    && /out/ratelimitlog version \
    && mkdir /out/data

# Certificate authorities, a user, and nothing that could be run.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/ratelimitlog /ratelimitlog
COPY --from=build --chown=65532:65532 /out/data /data
ENV RATELIMITLOG_ADDR=0.0.0.0:8080 \
    RATELIMITLOG_DSN=sqlite:/data/ratelimitlog.db \
    RATELIMITLOG_AUDIT_DSN=sqlite:/data/ratelimitlog.db \
    RATELIMITLOG_LOG_FORMAT=json
# SQLite writes three files beside each other: keep the directory, not the file.
VOLUME /data
WORKDIR /data
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=4s --start-period=10s --retries=3 CMD ["/ratelimitlog", "health"]
ENTRYPOINT ["/ratelimitlog"]
CMD ["serve"]
