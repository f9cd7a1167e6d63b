# hadolint global ignore=DL3006,DL3022,DL3067
# What `dlc build` prepares on its host, as stages: `dlc export` writes them in front of those of the other Dockerfiles.
# All that is copied or mounted from the build's own folder is named as `dlc export` writes it there.
ARG DEBIAN_IMAGE=debian:bookworm-slim

# A minimal Debian, made of packages. DEBIAN_MIRROR and DEBIAN_SECURITY may name other mirrors, both together, or
# a day of Debian's snapshot archive: the image then keeps these addresses.
FROM ${DEBIAN_IMAGE} AS debian-packages
ARG SUITE
ARG MMDEBSTRAP
ARG DEBIAN_MIRROR
ARG DEBIAN_SECURITY
RUN --mount=type=bind,source=prepare,target=/prepare \
    --mount=type=bind,source=debian,target=/debian \
    --mount=type=bind,source=own/ca,target=/ca \
    sh /prepare/make-rootfs.sh "${SUITE}" "${MMDEBSTRAP}" "${DEBIAN_MIRROR}" "${DEBIAN_SECURITY}"

FROM scratch AS rootfs
COPY --from=debian-packages /rootfs /

FROM rootfs AS tools-rootfs

# Certificate authorities of the user's own, which reach no layer of the image: a file own/ca/ca.pem.
FROM scratch AS ca
COPY own/ca /

FROM scratch AS scripts
COPY scripts /

# What adds a project's packages to a released image.
FROM scratch AS project-scripts
COPY project /

# The recorded versions of Debian packages.
FROM scratch AS debian
COPY debian /

# Modes reach the image: they must not depend on the umask of who copied this folder.
FROM rootfs AS sources
COPY launcher /sources/launcher
COPY library /sources/library
COPY channel /sources/channel
RUN chmod -R u=rwX,go=rX /sources

FROM scratch AS entrypoint
COPY --from=sources /sources/launcher /

FROM scratch AS runtime
COPY --from=sources /sources/library /

FROM scratch AS channel
COPY --from=sources /sources/channel /

# Where files are downloaded by their hashes.
FROM tools-rootfs AS downloads
RUN --mount=type=bind,from=unpinned-apt,target=/scripts \
    --mount=type=cache,id=tools-apt,target=/var/cache/apt,sharing=locked \
    --mount=type=cache,id=tools-apt-lists,target=/var/lib/apt/lists,sharing=locked \
    /scripts/os-packages/install.sh python3 python3-pip

FROM scratch AS index-settings
COPY --from=scripts python-packages/package-index.sh /python-packages/package-index.sh
COPY --from=ca . /ca

# What installs Python packages.
FROM downloads AS uv-program
RUN --mount=type=bind,from=index-settings,target=/scripts \
    --mount=type=bind,source=prepare,target=/prepare \
    --mount=type=secret,id=index_url --mount=type=secret,id=extra_index_url --mount=type=secret,id=netrc \
    sh /prepare/fetch-uv.sh /prepare/uv.txt /uv

FROM scratch AS uv
COPY --from=uv-program /uv /

# Wheels that the default index does not have. INDEXES is a list of NAME=ADDRESS; wheels in own/wheels come first, then the
# user's indexes (secrets).
FROM downloads AS index-wheels
ARG INDEXES
RUN --mount=type=bind,from=index-settings,target=/scripts \
    --mount=type=bind,source=prepare,target=/prepare \
    --mount=type=bind,source=locks/indexes,target=/locks \
    --mount=type=bind,source=own/wheels,target=/own \
    --mount=type=secret,id=index_url --mount=type=secret,id=extra_index_url --mount=type=secret,id=netrc \
    sh /prepare/fetch-wheels.sh /locks /own /wheels "${INDEXES}"

FROM scratch AS own-wheels
COPY own/wheels /

FROM own-wheels AS wheels
COPY --from=index-wheels /wheels /

# Software that the buildspec names by its address and hash.
FROM downloads AS efa-download
ARG EFA_SOFTWARE
RUN --mount=type=bind,from=index-settings,target=/scripts \
    --mount=type=bind,source=prepare,target=/prepare \
    sh /prepare/fetch-file.sh "${EFA_SOFTWARE}" /software

FROM scratch AS efa-software
COPY --from=efa-download /software /

FROM downloads AS cuda-compat-download
ARG CUDA_COMPAT
RUN --mount=type=bind,from=index-settings,target=/scripts \
    --mount=type=bind,source=prepare,target=/prepare \
    sh /prepare/fetch-file.sh "${CUDA_COMPAT}" /software

FROM scratch AS cuda-compat
COPY --from=cuda-compat-download /software /

# For images that have no such software.
FROM scratch AS nothing
WORKDIR /nothing
