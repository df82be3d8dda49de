"""Names under which other programs look for ours."""

from __future__ import annotations

HOOK = "nvidia-container-runtime-hook"
"""What Docker calls for --gpus, when it is on dockerd's PATH. Source: moby/moby `daemon/nvidia_linux.go`."""
RUNTIME = "nvidia-container-runtime"
