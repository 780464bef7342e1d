// Libraries that are opened where they are installed, and only when they are used.

import Glibc

/// A shared library that stays open.
package struct LoadedLibrary: @unchecked Sendable {
    private let handle: UnsafeMutableRawPointer

    /// - Parameter name: such as "libz.so.1".
    /// - Returns: nil where it cannot be opened; `dlerror` says why.
    package init?(_ name: String) {
        guard let handle = dlopen(name, RTLD_NOW | RTLD_LOCAL) else { return nil }
        self.handle = handle
    }

    /// A function; nil where the library has none of this name.
    package func function<Function>(_ name: String, _ type: Function.Type) -> Function? {
        dlsym(handle, name).map { unsafeBitCast($0, to: type) }
    }
}
