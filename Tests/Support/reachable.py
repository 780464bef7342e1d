"""A directory with copies of zguard and the library that other users can read, whatever the permissions of this checkout's directories."""

import shutil
from pathlib import Path

from Support.environment import LIBRARY, ZGUARD


class Reachable:
    def __init__(self, path):
        self.path = Path(path)
        self.path.chmod(0o755)
        for folder, file in (("bin", ZGUARD), ("lib", LIBRARY)):
            (self.path / folder).mkdir()
            shutil.copy(file, self.path / folder)
        self.zguard, self.library = self.path / "bin/zguard", self.path / "lib/libzguard.so"
