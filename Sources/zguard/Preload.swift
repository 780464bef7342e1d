// Finds the runtime library, and makes the environment that preloads it into a program.

import CSystem
import Glibc
import ZombieGuard

enum Preload {
    static let libraryVariable = "ZGUARD_LIBRARY"

    /// The path of libzguard.so: ZGUARD_LIBRARY, else ../lib/zguard or ../lib relative to the folder of this program.
    static func library() throws(Failure) -> String {
        if let reason = pageProblem(bytes: zg_system_page_bytes()) {
            throw Failure(reason, status: ExitStatus.cannotGuard)
        }
        let path = environment(libraryVariable) ?? besideThisProgram()
        var status = stat()
        guard stat(path, &status) == 0 else {
            throw Failure(
                "cannot find the runtime library '\(visible(path))': \(SystemError.last)",
                hint: "reinstall zguard, or set \(libraryVariable) to the path of libzguard.so",
                status: ExitStatus.cannotGuard)
        }
        if path.contains(where: { $0 == " " || $0 == ":" }) {
            throw Failure(
                "LD_PRELOAD cannot name the runtime library '\(visible(path))': its path contains a blank or a colon",
                hint: "install zguard elsewhere", status: ExitStatus.cannotGuard)
        }
        return path
    }

    /// Why programs cannot be guarded on a kernel with this page size; nil if they can.
    static func pageProblem(bytes: Int) -> String? {
        bytes == 4096 ? nil : "this kernel's page size is \(bytes / 1024) KiB; guarding needs 4 KiB"
    }

    private static func besideThisProgram() -> String {
        let parts = (OwnProgram.path ?? "").split(separator: "/").dropLast(2)
        let paths = [["lib", "zguard", "libzguard.so"], ["lib", "libzguard.so"]].map {
            "/" + (parts + $0).joined(separator: "/")
        }
        return paths.first { access($0, F_OK) == 0 } ?? paths[1]
    }

    /// The working directory; nil if it was removed.
    static func workingDirectory() -> String? {
        guard let directory = getcwd(nil, 0) else { return nil }
        defer { free(directory) }
        return String(cString: directory)
    }

    /// The value of an environment variable; nil if unset or empty.
    static func environment(_ name: String) -> String? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return String(cString: value)
    }
}

/// The environment of a program to start: a copy of zguard's environment, byte for byte, with some variables changed.
struct ChildEnvironment {
    private let entries: [UnsafeMutablePointer<CChar>]

    init(setting variables: [String: String]) {
        var entries: [UnsafeMutablePointer<CChar>] = []
        var next = zg_system_environment()
        while let entry = next?.pointee {
            let name = String(
                decoding: UnsafeBufferPointer(start: entry, count: strlen(entry)).prefix { $0 != 0x3d }
                    .map { UInt8(bitPattern: $0) }, as: UTF8.self)
            if variables[name] == nil { entries.append(entry) }
            next = next?.advanced(by: 1)
        }
        // Never freed, because a command starts few programs.
        entries += variables.map { strdup("\($0.key)=\($0.value)") }
        self.entries = entries
    }

    /// An environment that preloads the runtime library in front of the libraries already in LD_PRELOAD.
    static func guarding(library: String, options: String, filters: SystemCallFilters? = nil) -> ChildEnvironment {
        let preload = [library, Preload.environment("LD_PRELOAD")].compactMap { $0 }.joined(separator: ":")
        var variables = ["LD_PRELOAD": preload, RuntimeOptions.variable: options]
        if let filters { variables["ZGUARD_FILTERS"] = filters.variable }
        return ChildEnvironment(setting: variables)
    }

    func withPointers<Result>(_ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result) -> Result {
        let pointers = entries.map { Optional($0) } + [nil]
        return pointers.withUnsafeBufferPointer { body($0.baseAddress!) }
    }
}
