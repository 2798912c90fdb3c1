"""Where a file is mounted: whether it is a mount of its own, and on what kind of file system.

Assumes     Linux says so in /proc/self/mountinfo; where that is absent nothing is known, and nothing is refused.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

NETWORK: Final = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "virtiofs", "vboxsf"),
        *("ceph", "lustre", "glusterfs", "gpfs", "beegfs", "orangefs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone"),
        *("fuse.juicefs", "fuse.davfs", "fuse.grpcfuse"),
    )
)
"""File systems whose locks another host may not see. To try a lock on this host would show nothing of that."""

_TABLE: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


class Mount(NamedTuple):
    """A mount: its folder or file, and its kind of file system."""

    point: str
    kind: str


def mount_of(path: str, table: bytes | None = None) -> Mount | None:
    """The mount that holds a file, itself if the file is mounted alone; ``None`` where the system does not say.

    Args:
        path: Absolute and without symbolic links.
        table: What to read instead of the system's own table.

    Example:
        >>> mount_of("/data/tickets.db", b"22 1 8:1 / / rw - ext4 d rw\\n23 22 0:5 / /data rw - nfs4 h:/x rw\\n")
        Mount(point='/data', kind='nfs4')
    """
    if table is None:
        try:
            table = _TABLE.read_bytes()
        except OSError:
            return None
    mount = None
    for line in table.splitlines():
        words, _, rest = line.partition(b" - ")
        fields, kind = words.split(b" "), rest.split(b" ")[0]
        if len(fields) < 5 or not kind:
            continue
        point = os.fsdecode(_ESCAPED.sub(lambda octal: bytes([int(octal[1], 8)]), fields[4]))
        longer = mount is None or len(point) >= len(mount.point)  # a later mount on the same place covers the earlier
        if longer and (path == point or path.startswith(point.rstrip("/") + "/")):
            mount = Mount(point, os.fsdecode(kind))
    return mount
