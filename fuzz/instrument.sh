#!/bin/sh
# RUSTC_WORKSPACE_WRAPPER of fuzz/run.sh: counts edges and watches comparisons in winimg's own crates, and nowhere else, so that
# the dependencies are those of every other build. All flags are stable; they are the ones that cargo-fuzz gives.
case " $* " in
*" --crate-name winimg"*" --crate-type lib "*)
    exec "$@" \
        -Cpasses=sancov-module \
        -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
        -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares \
        -Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
        -Cdebug-assertions -Coverflow-checks -Copt-level=2
    ;;
esac
exec "$@"
