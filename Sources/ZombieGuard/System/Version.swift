// The version of everything that is released together.

import CSystem

/// The version of this library, of `zguard` and of the runtime; it stands in Package.swift.
public let zombieGuardVersion = String(cString: zg_system_version())
