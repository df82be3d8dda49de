"""Volumes of a Kubernetes pod, as they are mounted: folders of the machine, empty ones, claims, files of ConfigMaps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from marathon_cli.convert import quantities
from marathon_cli.convert.drivers import is_driver_path
from marathon_cli.convert.kubernetes_maps import ConfigMaps, note_of, write_files
from marathon_cli.convert.model import Container, Mount, Notes
from marathon_cli.convert.source import Section

_DRIVER = "the driver comes with the GPU, at /usr/local/nvidia"
_ELSEWHERE = "use a folder of the machine that all agents have, or a persistent volume of Marathon"


@dataclass(frozen=True, slots=True)
class Volumes:
    """The volumes of a pod by name; what a volume is becomes a note only where it is mounted, or at its own place."""

    by_name: Mapping[str, Section]
    maps: ConfigMaps
    claims_mib: Mapping[str, int] = field(default_factory=dict)
    """The claims that each instance of a StatefulSet has of its own, by name, with their sizes."""

    @classmethod
    def of(cls, sections: Iterable[Section], maps: ConfigMaps, claims_mib: Mapping[str, int]) -> Volumes:
        """Return the volumes of a pod's list."""
        return cls({section.text("name") or "": section for section in sections}, maps, claims_mib)

    def mount(self, item: Section, container: Container, notes: Notes) -> None:
        """Mount a volume into a container, as an entry of its `volumeMounts` says; what cannot be, is noted."""
        path, name, read_only = item.text("mountPath") or "", item.text("name") or "", item.flag("readOnly")
        below = item.text("subPath")
        item.ignore("mountPropagation")
        if name in self.claims_mib:
            if below is not None:
                notes.check(item.at("subPath"), f"all of the volume is at {path}, not its folder {below}")
            container.mounts.append(Mount(item.place, path, None, name, read_only, self.claims_mib[name]))
            return
        volume = self.by_name.get(name)
        if volume is None:
            raise notes.bad(item.at("name"), f"the pod has no volume {name!r}")
        if "hostPath" in volume:
            source = volume.section("hostPath")
            source.ignore("type")
            host = source.text("path") or ""
            if is_driver_path(host):
                notes.lost(item.place, _DRIVER)
                return
            container.mounts.append(Mount(item.place, path, f"{host}/{below}" if below else host, None, read_only))
        elif "emptyDir" in volume:
            source = volume.section("emptyDir")
            size = source.read("sizeLimit", quantities.mib)
            if path == "/dev/shm":
                source.ignore("medium")
                container.shm_mib = size
                if size is None:
                    notes.check(item.place, "/dev/shm has its usual size; give sizeLimit, or linuxInfo.ipcInfo.shmSize")
            else:
                folder = f"{name}/{below}" if below else name
                container.mounts.append(Mount(item.place, path, None, folder, read_only))
        elif "configMap" in volume:
            why = write_files(volume.section("configMap"), self.maps, container, path, below)
            if why is None:
                note_of(item.place, notes)
            else:
                notes.lost(volume.at("configMap"), f"volume {name}, mounted at {path}: {why}")
        else:
            kinds = [key for key in volume if key != "name"]
            volume.ignore(*kinds)
            why = _ELSEWHERE
            if name.startswith("kube-api-access-"):
                why = "Kubernetes' own API is not there"
            elif kinds in (["secret"], ["downwardAPI"], ["projected"]):
                why = "files are brought into the sandbox with `fetch`; secrets need a store of the cluster"
            notes.lost(volume.at(kinds[0] if kinds else "name"), f"volume {name}, mounted at {path}: {why}")
