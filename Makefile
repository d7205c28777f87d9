# winimg: `make demo` builds an image from the stand-in installer, `make test` proves the code.
# Both install what they need by package name (Debian 12 or a container of it; root or sudo) and need Rust.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

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
FUZZ_SECONDS ?= 600
# What `make nightly` makes. The longest are last, so that a run that is cut off has made most of them: on two processors without hardware acceleration
# the install matrix alone takes more than an hour.
NIGHTLY ?= deny windows-check real-signed cosign real-programs real-node book pages pages-demo cluster-policy cluster-real pipelines-judged pipelines vsphere gcs openstack \
	test-windows end-to-end-hyperv fuzz prove-standin packaged release-here shipped-recipes faults end-to-end-nightly install-matrix

# Tests compare what winimg writes into a log. By these it would be in the form of the service that runs the tests.
unexport GITHUB_ACTIONS GITLAB_CI

.PHONY: help
help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

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

# The tool and the stand-in installer, without simulators and tests.
demo: BUILD_ONLY := $(if $(filter $(BUILT)/winimg,$(WINIMG)),--package winimg) --package winimg-standin --bins

.PHONY: demo
demo: standin ## build an image from the stand-in installer into out/demo
	$(WINIMG) build recipes/demo.toml --output $(DEMO)
	@tests/demo/show.sh $(DEMO)

.PHONY: try
try: demo ## start the demo's image as vSphere and as OpenStack would, two clones each
	$(BUILT)/winimg try $(DEMO) --settle 20s

.PHONY: check
check: ## format, lint and the tests of the crates that differ from the main branch; BASE=branch for another
	@CARGO=$(CARGO) CLIPPY_DRIVER=$(CLIPPY_DRIVER) tests/check.sh

# The parts of `make test`, in order; each can be made by itself. The `-changed` ones run where the
# change concerns them (tests/changed.sh) and belong to `make nightly` otherwise.
PARTS := packages fmt prepare lint deny-changed workflows unit wine windows-changed end-to-end

# A test that lacks something fails here: `packages` installs it. What no package brings is named and
# not tried: KVM where there is none, whether winimg.exe compiles outside of Debian, advisories
# without their database, and a medium of Windows anywhere.
test: export WINIMG_NO_SKIP := 1

.PHONY: test
test: ## everything that continuous integration runs; ends with a table of its parts and their durations
	@tests/parts.sh $(PARTS)

# Each part can be made by itself; one that fails hides no other.
.PHONY: nightly
nightly: ## what is too slow for every push: really signed files, cosign, the packs' real programs and a node of them, tables of faults, the install matrix, all recipes, Hyper-V's demo, a kube-apiserver, pipelines and those who judge them, govc and vcsim, Google's client, Keystone and Glance, the book and the pages in a browser, winimg.exe, fuzzing, proofs from the stand-in, a release
	$(MAKE) --keep-going FUZZ_SECONDS=60 $(NIGHTLY)

# For .github/workflows/nightly.yml, which has a job for each.
.PHONY: nightly-targets
nightly-targets:
	@echo $(NIGHTLY)

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

$(MDBOOK):
	$(CARGO) install mdbook --version $(MDBOOK_VERSION) --locked --debug --no-default-features --features search --root $(TOOLS) --target-dir $(TOOLS)/build
	rm -rf $(TOOLS)/build

.PHONY: book
book: $(MDBOOK) ## docs/ as a book in target/book, with a search; fails on a link that leads nowhere
	rm -rf target/book
	$(MDBOOK) build
	$(LINTED) test --locked --test winimg -- --ignored --exact book::built::every_link_of_the_book_leads_somewhere

.PHONY: actionlint
actionlint:
	@if [ ! -x $(ACTIONLINT) ] && command -v go >/dev/null; then \
		GOBIN=$(TOOLS)/bin go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION); \
	fi

.PHONY: workflows
workflows: actionlint ## .github/workflows judged by actionlint, which Go builds
	@if [ -x $(ACTIONLINT) ]; then $(ACTIONLINT); else echo "workflows: there is no Go, which builds actionlint; not judged"; fi

.PHONY: release-here
release-here: ## what of a release needs no GitHub, in target/dist: binaries, packages, records, the demo by the static binary, its package on a bare Debian, the container image; names what it has to leave out; TARGETS="x86_64-linux" for some binaries
	TARGETS="$(TARGETS)" release/here.sh $(DIST)

.PHONY: packaged
packaged: ## winimg by cargo install from its packaged crates
	tests/release/install.sh target/packaged

.PHONY: unit
unit: build ## the tests that need no installation of Windows
	@tests/unit.sh $(LINTED)

.PHONY: real-signed
real-signed: packages ## judges a hundred files that their publishers signed, from npm, PyPI and Debian (200 MB)
	$(LINTED) test --locked --package winimg-trust --test trust -- --ignored --nocapture real::nightly::

$(COSIGN):
	tests/record/cosign.sh $(COSIGN_VERSION) $@

.PHONY: cosign
cosign: build $(COSIGN) ## cosign and winimg read what the other signed; builds cosign by Go, ten minutes once
	$(LINTED) test --locked --workspace --test winimg -- --ignored --nocapture record::cosign:: release::signed::

.PHONY: fuzz
fuzz: packages ## each parser of foreign bytes under libFuzzer for FUZZ_SECONDS (default 600); TARGETS="zip tar" for some
	fuzz/run.sh $(FUZZ_SECONDS) $(TARGETS)

.PHONY: end-to-end
end-to-end: standin ## builds in QEMU: the demo and its damages, a refusal, two at once, secrets, interrupts
	$(LINTED) test --locked --workspace --test winimg -- --ignored --test-threads 2 --nocapture --skip demo_on_hyper_v --skip ::nightly:: --skip ::matrix:: end_to_end::

.PHONY: end-to-end-nightly
end-to-end-nightly: standin ## more of the same: every other signal and moment, and the other refusals
	$(LINTED) test --locked --workspace --test winimg -- --ignored --test-threads 2 --nocapture --skip end_to_end::recipes --skip end_to_end::real_node --skip pages:: --skip wine:: ::nightly::

.PHONY: shipped-recipes
shipped-recipes: standin ## builds each recipe of recipes/ with stand-ins of what it fetches; RECIPES=word,word for some
	$(LINTED) test --locked --workspace --test winimg -- --ignored --nocapture end_to_end::recipes::

.PHONY: cluster-policy
cluster-policy: ## what goes into a cluster, judged by the API server's own code: needs go and its module proxy
	cd tests/kubernetes && go test ./...

.PHONY: cluster-real
cluster-real: ## the same put into a kube-apiserver with etcd over HTTPS; both are built by Go, half an hour once
	cd tests/kubernetes && nice -n 5 go test -p 1 -vet=off -tags server -run TestAServersJudgement -v ./...

# Those that run pipelines, or their schemas: Python's, and two built by Go, of which Argo's brings a SQLite that nothing here opens: without C its
# 250,000 lines are not compiled.
$(JUDGES)/.made: tests/pipelines/judges.sh
	tests/pipelines/judges.sh make $(JUDGES)
	touch $@

.PHONY: pipelines-judged
pipelines-judged: $(JUDGES)/.made ## rendered pipelines judged by actionlint, GitLab's and Buildkite's schemas and Argo's own code; needs go and its module proxy
	tests/pipelines/judges.sh judge $(JUDGES)
	cd tests/pipelines/argo && CGO_ENABLED=0 GOFLAGS="$${GOFLAGS-} -p=1" nice -n 5 go test -vet=off ./...

.PHONY: pipelines
pipelines: packages build ## six variants by Kubernetes' pods on two hosts that share a registry, one of which is lost; needs root
	$(LINTED) test --locked --workspace --test winimg -- --ignored --nocapture pipelines::nightly::

.PHONY: gcs
gcs: build ## an image published to fake-gcs-server and read by Google's client; needs go and its module proxy, five minutes once
	$(LINTED) test --locked --workspace --test winimg -- --include-ignored publish::gcs

.PHONY: openstack
openstack: build ## an image published to a Keystone and a Glance from PyPI (300 MB), and what they refuse; three minutes once
	$(LINTED) test --locked --workspace --test winimg -- --ignored --nocapture publish::openstack::

.PHONY: vsphere
vsphere: build ## an OVA and a VMDK imported by govc into vcsim, and an image published there; needs go and its module proxy
	$(LINTED) test --locked --workspace --test winimg -- --ignored --nocapture --exact export::vsphere::govc_and_vcsim_take_what_is_exported
	$(LINTED) test --locked --workspace --test winimg -- --include-ignored publish::vsphere

.PHONY: end-to-end-hyperv
end-to-end-hyperv: standin ## the demo on a stand-in for Hyper-V whose machines run in QEMU: artifacts, and all calls
	$(LINTED) test --locked --workspace --bin fake-powershell qemu -- --ignored
	$(LINTED) test --locked --workspace --test winimg -- --ignored --nocapture demo_on_hyper_v

.PHONY: install-matrix
install-matrix: standin-all ## builds and clones of each release, edition, firmware and bus; MATRIX=word,word for some, PART=1/2 for half
	$(LINTED) test --locked --workspace --test winimg -- --ignored --nocapture --exact end_to_end::matrix::each_combination_comes_up

.PHONY: faults-qemu
faults-qemu: standin ## a table of faults on QEMU: kills, full disks, stuck Setups, and how the rerun ends
	$(LINTED) test --locked --workspace --test winimg -- --ignored --nocapture faults_qemu::

.PHONY: faults-scripted
faults-scripted: packages build ## builds that something happens to, over a scripted QEMU: a table of causes; FAULTS=word for some
	$(LINTED) test --locked --workspace --test winimg -- --ignored --nocapture --quiet --exact faults::every_fault_is_named_and_the_next_build_goes_well

.PHONY: faults-hyperv
faults-hyperv: packages build ## builds on a stand-in for Hyper-V: their calls, and a table of causes; FAULTS=word for some
	$(LINTED) test --locked --workspace --test winimg -- --nocapture hyperv::

.PHONY: faults
faults: ## all tables of faults, also where one has a fault of its own; FAULTS=word,word for some
	$(MAKE) --keep-going faults-scripted faults-hyperv faults-qemu

$(PAGES)/npm/node_modules/.package-lock.json: tests/pages/package-lock.json
	mkdir -p $(PAGES)/npm
	cp tests/pages/package.json $< $(PAGES)/npm/
	npm ci --prefix $(PAGES)/npm --ignore-scripts --no-audit --no-fund
	touch $@

.PHONY: browser
browser:
	@tests/install-packages.sh browser
	$(MAKE) $(PAGES)/npm/node_modules/.package-lock.json

pages pages-demo: export WINIMG_NO_SKIP := 1

.PHONY: pages
pages: build browser ## opens the pages in headless Chromium: three widths, light and dark, axe-core; pictures in target/pages/out
	$(LINTED) test --locked --workspace --test winimg -- --ignored --nocapture --skip ::nightly:: pages::

.PHONY: pages-demo
pages-demo: standin browser ## winimg watch in Chromium through the demo's whole build
	$(LINTED) test --locked --workspace --test winimg -- --ignored --nocapture pages::watched::nightly::

.PHONY: pictures
pictures: demo browser ## takes the pictures of docs/pictures anew
	tests/pages/pictures.sh $(BUILT)/winimg $(DEMO)

.PHONY: wine
wine: wine-prefix ## runs the steps' command lines on Wine: services, packages, registry, files, quoting
	$(LINTED) test --locked --workspace --test winimg -- --include-ignored --test-threads 4 --skip ::nightly:: wine::

.PHONY: real-programs
real-programs: wine-prefix ## the packs' containerd, kubelet, kubeadm and others, built by Go, on Wine; half an hour once
	tests/wine/real/build.sh $(REAL)
	$(LINTED) test --locked --workspace --test winimg -- --ignored --nocapture --test-threads 2 wine::real::nightly::

.PHONY: real-node
real-node: standin wine-prefix ## a node image of those programs, on a medium that says what they said on Wine: built, verified, tried
	tests/wine/real/build.sh $(REAL)
	$(LINTED) test --locked --workspace --test winimg -- --ignored --nocapture wine::real::nightly::answers::
	if [ -e $(REAL)/answers.json ]; then tests/sim/windows/build.sh --no-virtio --programs $(REAL)/answers.json $(REAL)/medium; fi
	$(LINTED) test --locked --workspace --test winimg -- --ignored --nocapture end_to_end::real_node::

# $(call on_windows,DONE,COMMAND): the command, which needs the compiler for winimg.exe. Where apt has none (toolchain.sh ends with 3), the recipe says what
# was not DONE.
define on_windows
@status=0; tests/windows/toolchain.sh $(WINDOWS)/toolchain || status=$$?; \
case $$status in \
	0) $(2) ;; \
	3) echo "winimg.exe: this system has no compiler for it; not $(1)" ;; \
	*) exit $$status ;; \
esac
endef

.PHONY: windows-exe
windows-exe: packages
	$(call on_windows,built,tests/windows/cargo.sh $(WINDOWS) build --package winimg --package winimg-scripted --package fake-hyperv --bins)

.PHONY: windows-calls
windows-calls: build windows-exe ## winimg.exe under Wine beside winimg: what they say, write and ask of Hyper-V
	$(call on_windows,tried,$(LINTED) test --locked --workspace --test winimg -- --ignored windows::)

.PHONY: windows-check
windows-check: packages ## whether the tool and `prove` compile for Windows hosts; `make test-windows` runs the tool
	$(call on_windows,checked,tests/windows/cargo.sh $(WINDOWS) check --package winimg --package winimg-prove --package winimg-scripted --package fake-hyperv --bins)

.PHONY: test-windows
test-windows: windows-calls ## winimg.exe for Windows hosts, under Wine: the same, and its unit tests
	$(call on_windows,tested,tests/windows/cargo.sh $(WINDOWS) test $(addprefix --package winimg-,base formats trust recipe supply machine) \
		--package winimg --package fake-hyperv --lib)

.PHONY: prove-packages
prove-packages:
	@tests/install-packages.sh prove

.PHONY: prove
prove: prove-packages ## lines of docs/fidelity.toml proved on a Windows medium: ISO=…, VIRTIO=…; ROWS=word,word for some, JOIN=… KUBECONFIG=… for a cluster to join (docs/prove.md)
	@test -n "$(ISO)" || { echo "error: say which medium: make prove ISO=windows.iso VIRTIO=virtio-win.iso"; exit 2; }
	$(LINTED) build --locked --package winimg --package winimg-prove --bins
	$(BUILT)/prove run --iso $(ISO) $(if $(VIRTIO),--virtio $(VIRTIO)) $(if $(ROWS),--rows $(ROWS)) $(if $(PROOF),--output $(PROOF)) $(if $(JOIN),--join $(JOIN) --kubeconfig $(KUBECONFIG)) $(PROVE)

.PHONY: prove-standin
prove-standin: standin ## the same on the stand-in installer, whose page says on every line that it was no Windows
	rm -rf target/proof
	$(MAKE) prove ISO=$(STANDIN)/standin.iso VIRTIO=$(STANDIN)/virtio-win.iso ROWS=uefi-virtio,bios-ahci PROOF=target/proof PROVE="--with tests/prove/standin.toml --settle 20s --accel auto"
	$(LINTED) test --locked --package winimg-prove -- --ignored --nocapture nightly

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
