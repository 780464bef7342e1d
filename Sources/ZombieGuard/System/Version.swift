// The version of everything that is released together.

import CSystem

/// The version of this library, of `zguard` and of the runtime; it stands in Package.swift.
public let zombieGuardVersion = String(cString: zg_system_version())

/// The Swift that compiled this library, such as "6.3.1". Where the build did not say which, without the last number.
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
