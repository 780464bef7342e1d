// Demangles C++ and Swift symbols, with bounds on length.

import CSystem
import Glibc

// Limits of input and output: no real symbol is longer, and the demanglers' use of stack and memory grows with the
// length.
private let longestMangledName = 8192
private let longestDemangledName = 4 << 20

/// The source form of a mangled C++ or Swift name; `name` itself if it is not mangled, or if its source form could
/// exceed 4 MiB, which symbols of untrusted files and reports may do.
///
/// - Parameter name: a symbol.
/// - Returns: the name as in source code.
public func demangle(_ name: String) -> String {
    // The entry point of an asynchronous main has this name, and a suffix such as "TY1_" for each of its parts.
    if name == "async_Main" || name.hasPrefix("async_MainT") { return "async main" }
    guard let first = name.utf8.first, first == UInt8(ascii: "$") || first == UInt8(ascii: "_"),
        name.utf8.count <= longestMangledName, DemangledSize.bound(name) <= longestDemangledName
    else { return name }
    if name.hasPrefix("$s") || name.hasPrefix("$S") || name.hasPrefix("_$s") || name.hasPrefix("_T0") {
        return take(name.withCString { swift_demangle($0, strlen($0), nil, nil, 0) }) ?? name
    }
    if name.hasPrefix("_Z") {
        var status: Int32 = 0
        return take(__cxa_demangle(name, nil, nil, &status)) ?? name
    }
    return name
}

private func take(_ text: UnsafeMutablePointer<CChar>?) -> String? {
    guard let text else { return nil }
    defer { free(text) }
    return String(cString: text)
}
