# What `make nightly` makes, and what it is made of: too slow for every push. The Makefile includes it.

FUZZ_SECONDS ?= 600
# What `make nightly` makes. The longest are last, so that a run that is cut off has made most of them: on two processors without hardware acceleration
# the install matrix alone takes more than an hour.
NIGHTLY ?= deny windows-check real-signed cosign real-programs real-node book pages pages-demo cluster-policy cluster-real pipelines-judged pipelines vsphere gcs openstack \
	test-windows end-to-end-hyperv fuzz prove-standin packaged release-here shipped-recipes faults end-to-end-nightly install-matrix

# Each part can be made by itself; one that fails hides no other.
.PHONY: nightly
nightly: ## what is too slow for every push: really signed files, cosign, the packs' real programs and a node of them, tables of faults, the install matrix, all recipes, Hyper-V's demo, a kube-apiserver, pipelines and those who judge them, govc and vcsim, Google's client, Keystone and Glance, the book and the pages in a browser, winimg.exe, fuzzing, proofs from the stand-in, a release
	$(MAKE) --keep-going FUZZ_SECONDS=60 $(NIGHTLY)

# For .github/workflows/nightly.yml, which has a job for each.
.PHONY: nightly-targets
nightly-targets:
	@echo $(NIGHTLY)

$(MDBOOK):
	$(CARGO) install mdbook --version $(MDBOOK_VERSION) --locked --debug --no-default-features --features search --root $(TOOLS) --target-dir $(TOOLS)/build
	rm -rf $(TOOLS)/build

.PHONY: book
book: $(MDBOOK) ## docs/ as a book in target/book, with a search; fails on a link that leads nowhere
	rm -rf target/book
	$(MDBOOK) build
	$(LINTED) test --locked --test winimg -- --ignored --exact book::built::every_link_of_the_book_leads_somewhere

.PHONY: release-here
release-here: ## what of a release needs no GitHub, in target/dist: binaries, packages, records, the demo by the static binary, its package on a bare Debian, the container image; names what it has to leave out; TARGETS="x86_64-linux" for some binaries
	TARGETS="$(TARGETS)" release/here.sh $(DIST)

.PHONY: packaged
packaged: ## winimg by cargo install from its packaged crates
	tests/release/install.sh target/packaged

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

.PHONY: end-to-end-nightly
end-to-end-nightly: standin ## more of the same: every other signal and moment, and the other refusals
	$(LINTED) test --locked --workspace --test machines -- --ignored --test-threads 2 --nocapture --skip end_to_end::recipes --skip end_to_end::real_node --skip pages:: --skip wine:: ::nightly::

.PHONY: shipped-recipes
shipped-recipes: standin ## builds each recipe of recipes/ with stand-ins of what it fetches; RECIPES=word,word for some
	$(LINTED) test --locked --workspace --test machines -- --ignored --nocapture end_to_end::recipes::

.PHONY: cluster-policy
cluster-policy: pipelines-rendered ## what goes into a cluster, judged by the API server's own code: needs go and its module proxy
	cd tests/kubernetes && go test ./...

.PHONY: cluster-real
cluster-real: pipelines-rendered ## the same put into a kube-apiserver with etcd over HTTPS; both are built by Go, half an hour once
	cd tests/kubernetes && nice -n 5 go test -p 1 -vet=off -tags server -run TestAServersJudgement -v ./...

# Those that run pipelines, or their schemas: Python's, and two built by Go, of which Argo's brings a SQLite that nothing here opens: without C its
# 250,000 lines are not compiled.
$(JUDGES)/.made: tests/pipelines/judges.sh
	tests/pipelines/judges.sh make $(JUDGES)
	touch $@

.PHONY: pipelines-rendered
pipelines-rendered: build
	tests/pipelines/judges.sh render $(BUILT)/winimg target/pipelines

.PHONY: pipelines-judged
pipelines-judged: $(JUDGES)/.made pipelines-rendered ## rendered pipelines judged by actionlint, GitLab's and Buildkite's schemas and Argo's own code; needs go and its module proxy
	tests/pipelines/judges.sh judge $(JUDGES) target/pipelines
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
	$(LINTED) test --locked --workspace --test machines -- --ignored --nocapture demo_on_hyper_v

.PHONY: install-matrix
install-matrix: standin-all ## builds and clones of each release, edition, firmware and bus; MATRIX=word,word for some, PART=1/2 for half
	$(LINTED) test --locked --workspace --test machines -- --ignored --nocapture --exact end_to_end::matrix::each_combination_comes_up

.PHONY: faults-qemu
faults-qemu: standin ## a table of faults on QEMU: kills, full disks, stuck Setups, and how the rerun ends
	$(LINTED) test --locked --workspace --test machines -- --ignored --nocapture faults_qemu::

.PHONY: faults-scripted
faults-scripted: packages build ## builds that something happens to, over a scripted QEMU: a table of causes; FAULTS=word for some
	$(LINTED) test --locked --workspace --test machines -- --ignored --nocapture --quiet --exact faults::every_fault_is_named_and_the_next_build_goes_well

.PHONY: faults-hyperv
faults-hyperv: packages build ## builds on a stand-in for Hyper-V: their calls, and a table of causes; FAULTS=word for some
	$(LINTED) test --locked --workspace --test machines -- --nocapture hyperv::

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
	$(LINTED) test --locked --workspace --test machines -- --ignored --nocapture --skip ::nightly:: pages::

.PHONY: pages-demo
pages-demo: standin browser ## winimg watch in Chromium through the demo's whole build
	$(LINTED) test --locked --workspace --test machines -- --ignored --nocapture pages::watched::nightly::

.PHONY: pictures
pictures: demo browser ## takes the pictures of docs/pictures anew
	tests/pages/pictures.sh $(BUILT)/winimg $(DEMO)

.PHONY: real-programs
real-programs: wine-prefix ## the packs' containerd, kubelet, kubeadm and others, built by Go, on Wine; half an hour once
	tests/wine/real/build.sh $(REAL)
	$(LINTED) test --locked --workspace --test machines -- --ignored --nocapture --test-threads 2 wine::real::nightly::

.PHONY: real-node
real-node: standin wine-prefix ## a node image of those programs, on a medium that says what they said on Wine: built, verified, tried
	tests/wine/real/build.sh $(REAL)
	$(LINTED) test --locked --workspace --test machines -- --ignored --nocapture wine::real::nightly::answers::
	if [ -e $(REAL)/answers.json ]; then tests/sim/windows/build.sh --no-virtio --programs $(REAL)/answers.json $(REAL)/medium; fi
	$(LINTED) test --locked --workspace --test machines -- --ignored --nocapture end_to_end::real_node::

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
	$(call on_windows,tried,$(LINTED) test --locked --workspace --test winimg --test machines -- --ignored windows::)

.PHONY: windows-check
windows-check: packages ## whether the tool and `prove` compile for Windows hosts; `make test-windows` runs the tool
	$(call on_windows,checked,tests/windows/cargo.sh $(WINDOWS) check --package winimg --package winimg-prove --package winimg-scripted --package fake-hyperv --bins)

.PHONY: test-windows
test-windows: windows-calls ## winimg.exe for Windows hosts, under Wine: the same, and its unit tests
	$(call on_windows,tested,tests/windows/cargo.sh $(WINDOWS) test $(addprefix --package winimg-,base formats trust recipe supply machine) \
		--package winimg --package fake-hyperv --lib)

.PHONY: prove-standin
prove-standin: standin ## the same on the stand-in installer, whose page says on every line that it was no Windows
	rm -rf target/proof
	$(MAKE) prove ISO=$(STANDIN)/standin.iso VIRTIO=$(STANDIN)/virtio-win.iso ROWS=uefi-virtio,bios-ahci PROOF=target/proof PROVE="--with tests/prove/standin.toml --settle 20s --accel auto"
	$(LINTED) test --locked --package winimg-prove -- --ignored --nocapture nightly
