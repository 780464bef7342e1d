// Opens optional shared libraries when they are first used.

import Glibc

/// A shared library, which is never closed.
package struct LoadedLibrary: @unchecked Sendable {
    private let handle: UnsafeMutableRawPointer

    /// - Parameter name: file name, such as "libz.so.1".
    /// - Returns: nil if the library cannot be opened; `dlerror` has the reason.
    package init?(_ name: String) {
        guard let handle = dlopen(name, RTLD_NOW | RTLD_LOCAL) else { return nil }
        self.handle = handle
    }

    /// Looks up a function; nil if the library does not have it.
    package func function<Function>(_ name: String, _ type: Function.Type) -> Function? {
        dlsym(handle, name).map { unsafeBitCast($0, to: type) }
    }
}
