// The common version of the library, zguard and the runtime.

import CSystem

/// The version of this library, `zguard` and the runtime, as set in Package.swift.
public let zombieGuardVersion = String(cString: zg_system_version())

/// The Swift version that compiled this library, such as "6.3.1"; only "6.3" if the build did not pass the exact
/// version.
public let zombieGuardSwiftVersion: String = {
    let exact = String(cString: zg_system_swift_version())
    if !exact.isEmpty { return exact }
    #if compiler(>=6.4)
    return "6.4 or later"
    #elseif compiler(>=6.3)
    return "6.3"
    #elseif compiler(>=6.2)
    return "6.2"
    #elseif compiler(>=6.1)
    return "6.1"
    #else
    return "6.0"
    #endif
}()

/// The processor that this library was compiled for, as `uname -m` names it.
public let zombieGuardArchitecture = Processor.name
