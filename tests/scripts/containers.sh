#!/usr/bin/env bash
# Tests that scripts/lint-containers.sh refuses base images that are named by a tag.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/scripts/lib.sh
. tests/scripts/lib.sh

digest=sha256:$(printf '%064d' 1)
# The verdict on a container file of these lines.
bases() { # bases LINE…
    printf '%s\n' "$@" >"$work/Containerfile"
    scripts/lint-containers.sh --bases "$work/Containerfile"
}

expect "the bases of the container file are named by digest" \
    0 "" scripts/lint-containers.sh --bases packaging/container/Containerfile
expect "a tag is refused" \
    1 "Containerfile:1: the base image debian:12 is not named by its digest" bases "FROM debian:12"
expect "so is no tag" \
    1 "the base image debian is not" bases "FROM --platform=linux/amd64 debian AS build"
expect "so is a tag as the default of an argument" \
    1 "the base image debian:12 is not" bases "ARG BASE=debian:12" "FROM \${BASE}"
expect "so is a digest that is cut short" \
    1 "is not named by its digest" bases "FROM debian@sha256:0123"
expect "so is a tag of a later stage" \
    1 "Containerfile:2: " bases "FROM debian@$digest AS build" "from debian:12"
expect "a digest is right" \
    0 "" bases "FROM debian@$digest" "FROM docker.io/library/debian:12@$digest"
expect "a stage before is right, and so is what the caller has to name" \
    0 "" bases "ARG BASE" "FROM \${BASE} AS one" "FROM one"
finish containers
