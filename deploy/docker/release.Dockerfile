# syntax=docker/dockerfile:1
#
# The image of a release: goreleaser gives it the programs of all platforms, which it has built already. Apart from
# where the program comes from, it equals the stage "node" of Dockerfile, and a test compares the two.

FROM --platform=$BUILDPLATFORM busybox:1.37-musl AS folders
RUN mkdir -p -m 0700 /out/data

FROM gcr.io/distroless/static-debian12:nonroot AS node
ARG TARGETPLATFORM
LABEL org.opencontainers.image.title="belfry" \
      org.opencontainers.image.description="A clustered timer service" \
      org.opencontainers.image.source="https://github.com/belfryhq/belfry" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY $TARGETPLATFORM/belfry /usr/bin/belfry
# A new volume at this folder gets the owner and the mode of the folder in the image.
COPY --from=folders --chown=65532:65532 /out/data /var/lib/belfry
ENV BELFRY_SERVE_DATA=/var/lib/belfry
VOLUME /var/lib/belfry
USER 65532:65532
# 8400: the API. 8500: other nodes, over TCP and UDP.
EXPOSE 8400/tcp 8500/tcp 8500/udp
STOPSIGNAL SIGTERM
# As patient as the probes of the chart: a node that reads many tasks is not dead.
HEALTHCHECK --interval=10s --timeout=6s --start-period=1h --retries=18 CMD ["/usr/bin/belfry", "healthcheck"]
ENTRYPOINT ["/usr/bin/belfry"]
CMD ["serve"]
