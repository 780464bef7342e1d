// Errors of fleet stores, and shared libraries that are loaded on demand.

import Glibc
import ZombieGuard

/// An operation on a store or a receiver of findings failed. The description is one line in lower case, safe to print.
public struct FleetError: Error, Hashable, Sendable, CustomStringConvertible {
    /// How to fix it.
    public var hint: String?
    public var description: String
    /// Whether a retry may succeed.
    public var isTemporary: Bool
    /// Status of the response of an HTTP server; nil if there was none.
    var status: Int?

    init(_ description: String, hint: String? = nil, isTemporary: Bool = false, status: Int? = nil) {
        self.description = description
        self.hint = hint
        self.isTemporary = isTemporary
        self.status = status
    }

    /// The error's text for a response. A user with a token gets no details, because `description` names paths and
    /// hosts.
    func text(for user: User?) -> String { user == nil ? description : "the store is not available" }

    /// An error with a reason that is safe to print.
    package init(failure reason: String) { self.init(reason) }
}

/// A shared library that is loaded on first use (libpq, libsqlite3, libcurl), so that zguard does not depend on it.
struct SharedLibrary: Sendable {
    private let library: LoadedLibrary
    private let name: String
    private let package: String

    /// - Parameters:
    ///   - name: soname, such as "libpq.so.5".
    ///   - package: the Debian package that provides it.
    init(_ name: String, package: String) throws(FleetError) {
        guard let library = LoadedLibrary(name) else {
            let reason = dlerror().map { String(cString: $0) } ?? ""
            if reason.hasPrefix(name + ": cannot open shared object file") {
                throw FleetError("\(name) is not installed", hint: "apt-get install \(package)")
            }
            throw FleetError("cannot open \(name): \(visible(reason))", hint: "apt-get install --reinstall \(package)")
        }
        (self.library, self.name, self.package) = (library, name, package)
    }

    func function<Function>(_ symbol: String, _ type: Function.Type) throws(FleetError) -> Function {
        guard let function = library.function(symbol, type) else {
            throw FleetError("\(name) has no \(symbol)", hint: "a newer version of the package \(package) has it")
        }
        return function
    }
}
