#!/usr/bin/env bash
# Lets this user open KVM's device, which hosted runners have but keep for root (DEVICE names another file); says so where there is none.
set -euo pipefail
device=${DEVICE:-/dev/kvm}
if [ ! -e "$device" ]; then
    echo "error: this host has no $device" >&2
    echo "  cure: take a runner with KVM; without it each installation takes many hours" >&2
    exit 1
fi
if [ ! -r "$device" ] || [ ! -w "$device" ]; then
    sudo chmod 0666 "$device"
fi
echo "$device can be opened"
