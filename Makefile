# What one does with this repository. `make` alone lists it.

SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin

# Peers that tests speak to; the benchmark measures against all that scripts/peers.sh knows.
TEST_PEERS := wireguard-go boringtun gotatun resolved openresolv oidc-provider nginx haproxy caddy tayga getent-musl ask-musl ask-glibc ask-go
# What `make bench` passes on, such as BENCH="--only ping --workers 2".
BENCH ?=
# What `make study` passes on, such as STUDY="--quick" or STUDY="--only links,workers".
STUDY ?=
# Tests of one program that run at the same time.
TESTS_AT_ONCE ?= 4
# Test programs that run the product in namespaces, browsers and machines (tests/lab/Cargo.toml).
LABS := access browser lab packages
# Seconds for each fuzz target, and which (all).
FUZZ_SECONDS ?= 60
TARGETS ?=
# The command for a fresh machine.
FRESH ?= make test-desktop
# What to break on purpose: session, policy, or a sample of portal and store.
MUTANTS ?= session

target_dir := $(or $(CARGO_TARGET_DIR),target)
desktop_target_dir := $(or $(CARGO_TARGET_DIR),desktop/target)

# A benchmark takes the release build, although another may be newer.
BENCH_RUN = CULVERT_BIN="$${CULVERT_BIN:-$$(realpath $(target_dir)/release/culvert)}" cargo run --release -p culvert-bench --

.DEFAULT_GOAL := help
.PHONY: help setup desktop test-desktop bench-desktop test-desktop-lab test-fresh lint-desktop demo demo-ha test test-scripts test-packages packages packages-desktop packages-arm64 packages-desktop-arm64 arm64 test-arm64 portable static release reproducible bench bench-quick bench-console bench-crowd bench-relay bench-scale bench-turns day study lint lint-labs lint-containers audit vet vet-import fuzz constant-time handshake-model miri sanitize docs docs-serve rustdoc clean-lab ci rust mutants promises

help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install the Debian packages that are missing (as root), or say what to install
	@scripts/setup.sh

desktop: ## The window for Linux desktops, into desktop/target/release (GTK 4.8, libadwaita 1.2)
	@scripts/setup.sh desktop
	cargo build --release --locked --manifest-path desktop/Cargo.toml --workspace

test-desktop: ## The window under Xvfb, operated by its accessibility tree; pictures in desktop/target/pictures
	@scripts/setup.sh desktop
	cargo test --locked --manifest-path desktop/Cargo.toml --workspace
	cargo clippy --quiet --locked --manifest-path desktop/Cargo.toml --workspace --all-targets -- -D warnings
	cargo build --locked --manifest-path desktop/Cargo.toml --workspace
	desktop-file-validate desktop/data/*.desktop
	appstreamcli validate --no-net desktop/data/*.metainfo.xml
	@desktop/tests/window.sh

test-desktop-lab: setup ## The window of people at a Debian machine, with service, portal and gateway; pictures as well (root)
	@scripts/setup.sh desktop
	cargo build --workspace --bin culvert
	cargo build --locked --manifest-path desktop/Cargo.toml --workspace
	@scripts/desktop-under-test.sh
	CULVERT_BIN="$$(realpath $(target_dir)/debug/culvert)" cargo test --workspace --test desktop -- --nocapture --test-threads 2

test-fresh: setup ## A command at a fresh Debian machine, which scripts/setup.sh has to make ready: FRESH="make demo" (root)
	@scripts/fresh-machine.sh $(FRESH)

bench-desktop: desktop ## Processor time, memory and times of the window with 10,000 resources, under Xvfb
	@CULVERT_DESKTOP=$(abspath $(desktop_target_dir))/release/culvert-desktop desktop/tests/window.sh --bench

lint-desktop: # Of the window, what needs no GTK: its default members
	cargo clippy --quiet --locked --manifest-path desktop/Cargo.toml --all-targets -- -D warnings

demo: ## The whole product in namespaces, also with both ends behind NAT, then a tunnel alone (root; builds first)
	@scripts/demo.sh

demo-ha: ## Two portals on PostgreSQL behind HAProxy: each is killed under load, and what happened when (root; builds first)
	@scripts/demo.sh ha

test: setup ## Every test: unit, property, corpus replay, namespaces, interop (root)
	@# Builds all that tests run, the program included, so that no test waits for the compiler.
	@# Peers, and a Debian for tests of the packages, are fetched and built meanwhile, which waits for the network.
	@scripts/debian-root.sh >/dev/null & debian=$$!; \
		PEERS_NICE=0 scripts/peers.sh $(TEST_PEERS) & peers=$$!; \
		cargo test --workspace --no-run && cargo test --workspace --no-run $(LABS:%=--test %); \
		built=$$?; wait $$debian; wait $$peers || built=$$?; exit $$built
	@# Where Debian can't be had, its tests alone fail.
	status=0; \
	scripts/axe.sh || status=1; \
	scripts/packages-under-test.sh || status=1; \
	CULVERT_BIN="$$(realpath $(target_dir)/debug/culvert)" scripts/run-tests.sh $(TESTS_AT_ONCE) $(LABS) || status=1; \
	exit $$status

test-scripts: rust ## Tests of the scripts of this repository alone (about three minutes)
	@tests/scripts/run.sh

test-packages: # What tests of the packages install
	@scripts/packages-under-test.sh

packages: setup ## Debian packages of the release build, into target/debian
	cargo build --release --locked -p culvert
	@packaging/build $(target_dir)/release/culvert $(target_dir)/debian

arm64: rust ## The program for arm64 processors, of the dev profile (scripts/setup.sh arm64 installs the cross compiler)
	@scripts/arm64.sh build

test-arm64: rust ## Tests of the pure crates for arm64, in qemu
	@scripts/arm64.sh test

packages-arm64: setup ## Debian packages for arm64 of the release build, into target/debian
	@program=$$(scripts/arm64.sh build release) && packaging/build "$$program" $(target_dir)/debian

packages-desktop: setup ## The Debian package of the window of the release build, into target/debian
	@scripts/setup.sh desktop
	cargo build --release --locked --manifest-path desktop/Cargo.toml --workspace
	@packaging/build-desktop $(desktop_target_dir)/release/culvert-desktop $(target_dir)/debian

packages-desktop-arm64: setup ## The same for arm64, with GTK for arm64 from Debian
	@program=$$(scripts/arm64.sh build-desktop release) && \
		CULVERT_CROSS_ROOT=$(abspath $(target_dir))/arm64-gtk packaging/build-desktop "$$program" $(target_dir)/debian

portable: rust ## Whether the pure crates compile for Windows and macOS, where Rust's libraries of these are installed
	cargo xtask portable

static: setup ## One program that needs no library of its machine, into target/static
	@scripts/static.sh

release: ## Everything that is released, signed, into target/release-VERSION: VERSION=0.1.0 SIGNING_KEY=~/.ssh/culvert-release
	@scripts/release.sh "$(VERSION)" "$(SIGNING_KEY)"

reproducible: ## Build all of that twice, in two places, and compare (six release builds: over an hour)
	@scripts/reproducible.sh

bench: setup ## Culvert, its peers and the bare link side by side (root; about 25 minutes)
	@scripts/peers.sh || echo "some peers are missing; the rest is measured"
	cargo build --release -p culvert
	$(BENCH_RUN) $(BENCH)

bench-quick: setup ## The same in under three minutes
	@scripts/peers.sh || echo "some peers are missing; the rest is measured"
	cargo build --release -p culvert
	$(BENCH_RUN) --quick $(BENCH)

bench-turns: setup ## A build of before beside today's by turns: OLD=path/to/culvert (some 15 minutes)
	cargo build --release -p culvert
	$(BENCH_RUN) turns --check --old "$(OLD)" $(BENCH)

day: setup ## Half an hour in which everything happens to a product, again and again: what it holds, what it logs (root)
	cargo build --locked --workspace
	CULVERT_DAY_MINUTES=30 cargo test --locked --package culvert-lab --test access -- --nocapture flows_that_are_allowed_go_on

bench-console: setup ## How fast the console's pages of a large account are (over ten minutes)
	cargo build --release -p culvert
	$(BENCH_RUN) console

bench-relay: setup ## A relay beside coturn, pings through it under load, 10,000 registrations, and the product by each kind of path (three minutes)
	@scripts/peers.sh turnserver
	cargo build --release -p culvert
	$(BENCH_RUN) relay --check
	$(BENCH_RUN) relayed --check

bench-crowd: setup ## Handshakes, changes, memory and traffic with up to 60,000 peers beside wireguard-go, the grants of 10,000 clients, and a port scan (root; some 15 minutes)
	@scripts/peers.sh wireguard-go
	cargo build --release -p culvert
	$(BENCH_RUN) crowd --check
	$(BENCH_RUN) crowd-traffic --check
	$(BENCH_RUN) crowd-grants
	$(BENCH_RUN) crowd-offers --check
	$(BENCH_RUN) crowd-scan --check

bench-scale: setup ## 10,000 clients and 100 gateways at three portals and at one, and a large portal's move to PostgreSQL
	cargo build --release -p culvert
	$(BENCH_RUN) portal --portals 3 --gateways 100 --clients 10000 --newcomers 200 --changes 100 --check
	$(BENCH_RUN) portal --gateways 100 --clients 10000 --newcomers 200 --changes 100 --check
	$(BENCH_RUN) migrate

study: ## Where a tunnel loses its speed: docs/performance.md anew (root; over an hour, alone; STUDY="--quick" is under 10 minutes)
	@scripts/setup.sh study
	@scripts/peers.sh || echo "some peers are missing; the rest is measured"
	cargo build --release -p culvert
	$(BENCH_RUN) study $(STUDY)

lint: rust ## Format, clippy, layers, links
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	@$(MAKE) --no-print-directory lint-labs
	cargo xtask layering
	cargo xtask docs

lint-labs: # Labs are no targets of `--all-targets`: they run by name alone
	cargo clippy --quiet --workspace $(LABS:%=--test %) --test desktop -- -D warnings

lint-containers: ## The container file, the Compose files, the configuration of HAProxy (PyPI, Debian)
	@scripts/lint-containers.sh

audit: rust ## Licences, duplicates, sources and advisories of dependencies; fails without a current advisory database
	@.ci/audit

vet: rust ## Whether somebody answers for each version of each dependency (supply-chain/README.md)
	@.ci/vet

vet-import: rust ## Fetch the audits of others, and drop exemptions that they make needless (network)
	@.ci/vet --import

fuzz: rust ## Grow the fuzz corpora: FUZZ_SECONDS=60 TARGETS="cut uapi_set" (nightly, cargo-fuzz)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) fuzz/run.sh $(TARGETS)

mutants: setup ## Break the code on purpose and see which tests notice (MUTANTS="session", "policy" or "sample 0")
	@# Tests of sign-ins by a provider fail without one, and would notice nothing.
	@scripts/peers.sh oidc-provider
	cargo xtask mutants $(MUTANTS)

promises: rust ## Break each promise of docs/threat-model.md and see its tests fail (PROMISES="within gate"; root; hours for all)
	cargo xtask promises $(PROMISES)

constant-time: rust ## Whether the time of comparing secrets tells where they differ (dudect; about a minute, on a quiet machine)
	cargo run --release --quiet -p culvert-constant-time

handshake-model: ## Search the model of the handshake for attacks (Verifpal)
	@tests/handshake/check.sh

sanitize: rust ## Tests of crates with unsafe code, and the fuzz corpora, with AddressSanitizer (nightly; root; builds for 20 minutes)
	@scripts/sanitize.sh

miri: rust ## Unit tests of crates without C code in Miri (nightly with miri)
	@scripts/miri.sh

docs: rust ## The documentation site, into target/site
	@scripts/site.sh

docs-serve: rust ## The same at http://127.0.0.1:8000, made anew whenever a document changes
	@scripts/site.sh serve

rustdoc: rust ## The documentation of the code, as web pages
	@# Pages for who works on the code: private items are in them, and may be linked to.
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --workspace --no-deps --document-private-items

clean-lab: ## Remove namespaces and sockets that killed tests left behind (root)
	@for path in /run/netns/cvl-*; do \
		name=$${path##*/}; owner=$${name#cvl-}; owner=$${owner%%-*}; \
		if [ -e "$$path" ] && [ ! -d "/proc/$$owner" ]; then \
			echo "removing $$name"; \
			for pid in $$(ip netns pids "$$name"); do kill -9 "$$pid"; done; \
			ip netns del "$$name"; \
			rm -f /var/run/wireguard/cw"$$owner"n*.sock; \
			for cgroup in /sys/fs/cgroup/cvl-"$$owner"-* /sys/fs/cgroup/*/cvl-"$$owner"-*; do \
				[ ! -d "$$cgroup" ] || find "$$cgroup" -depth -type d -exec rmdir {} +; \
			done; \
		fi; \
	done

ci: ## What CI runs
	@.ci/run

rust:
	@command -v cargo >/dev/null || { \
		echo "Rust is missing. Install it from https://rustup.rs/, then open a new shell." >&2; exit 1; }
