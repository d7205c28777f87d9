# winimg: `make demo` builds an image from the stand-in installer, `make test` proves the code.
# Both install what they need by package name (Debian 12 or a container of it; root or sudo) and need Rust.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The tool and the stand-in installer, without simulators and tests.
demo: BUILD_ONLY = $(if $(filter $(BUILT)/winimg,$(WINIMG)),--package winimg) --package winimg-standin --bins

.PHONY: demo
demo: standin ## build an image from the stand-in installer into out/demo
	$(WINIMG) build recipes/demo.toml --output $(DEMO)
	@tests/demo/show.sh $(DEMO)

.PHONY: try
try: demo ## start the demo's image as vSphere and as OpenStack would, two clones each
	$(BUILT)/winimg try $(DEMO) --settle 20s

# A test that lacks something fails here: `packages` installs it. What no package brings is named and
# not tried: KVM where there is none, whether winimg.exe compiles outside of Debian, advisories
# without their database, and a medium of Windows anywhere.
test: export WINIMG_NO_SKIP := 1

.PHONY: test
test: ## everything that continuous integration runs; ends with a table of its parts and their durations
	@tests/parts.sh $(PARTS)

.PHONY: check
check: ## format, lint and the tests of the crates that differ from the main branch; BASE=branch for another
	@CARGO=$(CARGO) CLIPPY_DRIVER=$(CLIPPY_DRIVER) tests/check.sh

.PHONY: help
help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

CARGO ?= cargo
# Lints while it compiles: clippy's driver compiles as rustc does and reports clippy's lints as well.
# It is part of what cargo knows a compiled crate by, so every build of this file takes it. Nothing it
# reports stops a build; `make lint` fails on it.
CLIPPY_DRIVER := $(shell rustup which clippy-driver 2>/dev/null || command -v clippy-driver)
LINTED := env CLIPPY_ARGS=--cap-lints=warn RUSTC_WORKSPACE_WRAPPER=$(CLIPPY_DRIVER) $(CARGO)
TOOLS := $(CURDIR)/target/tools
STANDIN := $(CURDIR)/target/standin
WINE := $(CURDIR)/target/wine
WINDOWS := $(CURDIR)/target/windows
PAGES := $(CURDIR)/target/pages
REAL := $(CURDIR)/target/real-programs
JUDGES := $(TOOLS)/judges
DENY := $(TOOLS)/bin/cargo-deny
DENY_VERSION := 0.20.2
MDBOOK := $(TOOLS)/bin/mdbook
MDBOOK_VERSION := 0.5.4
COSIGN := $(TOOLS)/bin/cosign
COSIGN_VERSION := v3.1.3
ACTIONLINT := $(TOOLS)/bin/actionlint
ACTIONLINT_VERSION := v1.7.12
DEMO := out/demo
BUILT := $(or $(CARGO_TARGET_DIR),target)/debug
DIST := target/dist
# What the demo is built with; another program, such as that of a release, is not built here.
WINIMG ?= $(BUILT)/winimg

# Tests compare what winimg writes into a log. By these it would be in the form of the service that runs the tests.
unexport GITHUB_ACTIONS GITLAB_CI

# The parts of `make test`, in order; each can be made by itself. The `-changed` ones run where the
# change concerns them (tests/changed.sh) and belong to `make nightly` otherwise.
PARTS := packages fmt prepare lint deny-changed workflows unit wine windows-changed end-to-end

.PHONY: packages
packages: ## install the Debian packages that demo and test need
	@tests/install-packages.sh

# With the tests, whose dependencies turn on features of other crates, so that these are compiled once.
EVERYTHING := --workspace --bins --tests --examples

.PHONY: build
build:
	$(LINTED) build --locked $(or $(BUILD_ONLY),$(EVERYTHING))

.PHONY: standin standin-all
standin: ## make the stand-in installer and its components
standin-all: ## the same, and a medium of each release and channel
standin standin-all: packages build
	tests/sim/windows/build.sh $(if $(filter standin-all,$@),--all) $(STANDIN)
	tests/demo/components.sh $(STANDIN)/components

.PHONY: fmt
fmt:
	$(CARGO) fmt --all --check

# What the tests need. Compiling keeps the processors busy while the others wait for the network.
.PHONY: prepare judges wine-prefix
prepare: packages
	@$(MAKE) --no-print-directory -j build judges actionlint wine-prefix
judges: packages
	tests/record/venv.sh
wine-prefix: packages
	tests/wine/prefix.sh $(WINE)

.PHONY: lint
lint: build ## fails on what rustc and clippy warned of while they compiled
	@test -n "$(CLIPPY_DRIVER)" || { echo "error: there is no clippy: rustup component add clippy" >&2; exit 2; }
	@$(LINTED) build --locked $(EVERYTHING) --message-format short 2>&1 | tests/warnings.sh

$(DENY):
	$(CARGO) install cargo-deny --version $(DENY_VERSION) --locked --debug --root $(TOOLS) --target-dir $(TOOLS)/build
	rm -rf $(TOOLS)/build

.PHONY: deny
deny: $(DENY) ## licences, sources and, where their database can be reached, advisories
	$(DENY) --locked --workspace check licenses bans sources
	@if timeout 60 $(DENY) --locked fetch db >/dev/null 2>&1; then \
		$(DENY) --locked --workspace check advisories; \
	else \
		echo "advisories: their database cannot be reached from here; not checked"; \
	fi

.PHONY: deny-changed windows-changed
deny-changed:
	@if tests/changed.sh dependencies; then $(MAKE) deny; fi
windows-changed:
	@if tests/changed.sh windows; then $(MAKE) windows-check; fi

.PHONY: actionlint
actionlint:
	@if [ ! -x $(ACTIONLINT) ] && command -v go >/dev/null; then \
		GOBIN=$(TOOLS)/bin go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION); \
	fi

.PHONY: workflows
workflows: actionlint ## .github/workflows judged by actionlint, which Go builds
	@if [ -x $(ACTIONLINT) ]; then $(ACTIONLINT); else echo "workflows: there is no Go, which builds actionlint; not judged"; fi

.PHONY: unit
unit: build ## the tests that need no installation of Windows
	@tests/unit.sh $(LINTED)

.PHONY: end-to-end
end-to-end: standin ## builds in QEMU: the demo and its damages, a refusal, two at once, secrets, interrupts
	$(LINTED) test --locked --workspace --test machines -- --ignored --test-threads 2 --nocapture --skip demo_on_hyper_v --skip ::nightly:: --skip ::matrix:: end_to_end::

.PHONY: wine
wine: wine-prefix ## runs the steps' command lines on Wine: services, packages, registry, files, quoting
	$(LINTED) test --locked --workspace --test machines -- --include-ignored --test-threads 4 --skip ::nightly:: wine::

.PHONY: prove-packages
prove-packages:
	@tests/install-packages.sh prove

.PHONY: prove
prove: prove-packages ## lines of docs/fidelity.toml proved on a Windows medium: ISO=…, VIRTIO=…; ROWS=word,word for some, JOIN=… KUBECONFIG=… for a cluster to join (docs/prove.md)
	@test -n "$(ISO)" || { echo "error: say which medium: make prove ISO=windows.iso VIRTIO=virtio-win.iso"; exit 2; }
	$(LINTED) build --locked --package winimg --package winimg-prove --bins
	$(BUILT)/prove run --iso $(ISO) $(if $(VIRTIO),--virtio $(VIRTIO)) $(if $(ROWS),--rows $(ROWS)) $(if $(PROOF),--output $(PROOF)) $(if $(JOIN),--join $(JOIN) --kubeconfig $(KUBECONFIG)) $(PROVE)

.PHONY: bench-export
bench-export: ## one export pass against qemu-img, openssl and tar, as ratios
	benches/export.sh

.PHONY: bench-verify
bench-verify: ## 10,000 checks of an image of 20 GiB, as seconds and against openssl (root)
	benches/verify.sh

.PHONY: bench-build
bench-build: ## a cold build of the tool: crates, wall and processor seconds, the ten slowest units
	benches/build.sh

.PHONY: bench-ci
bench-ci: ## `.ci/run` on a clean clone of the last commit: the table of its parts, also in target/bench-ci.txt
	benches/ci.sh target/bench-ci.txt

.PHONY: bench-resume
bench-resume: standin ## the demo from nothing, unchanged, and with another last component, as ratios
	benches/resume.sh

.PHONY: clean
clean: ## remove out/, the stand-in and Wine's prefixes, not cargo's work
	rm -rf out $(STANDIN) $(WINE) $(WINDOWS)/prefix

include nightly.mk
