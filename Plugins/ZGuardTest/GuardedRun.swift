// Finds or builds zguard and its library, and runs a program under it. Both plugins compile this file.

import Foundation
import PackagePlugin

/// An error that the plugin reports before it exits.
struct PluginFailure: Error {
    /// Exit statuses, the same as those of `zguard run`.
    enum Status: Int32 {
        case failure = 1
        case usage = 64
        case cannotGuard = 125
    }

    var message: String
    var status = Status.failure
}

/// Runs programs under `zguard run`.
struct GuardedRun {
    private let context: PluginContext
    private let packageManager: PackageManager
    private let configuration: PackageManager.BuildConfiguration
    private let environment = ProcessInfo.processInfo.environment

    init(_ context: PluginContext, _ packageManager: PackageManager, _ arguments: PluginArguments) throws(PluginFailure)
    {
        self.context = context
        self.packageManager = packageManager
        switch arguments.all("-c").last {
        case nil: configuration = .inherit
        case "debug"?: configuration = .debug
        case "release"?: configuration = .release
        case let other?:
            throw PluginFailure(
                message: "option '-c' has the bad value '\(other)': expected debug or release", status: .usage)
        }
    }

    /// The value of ZGUARD_OPTIONS, or "".
    var inheritedOptions: String { environment["ZGUARD_OPTIONS"] ?? "" }

    /// Builds a part of the package, as `swift build` would.
    ///
    /// - Parameters:
    ///   - what: name of the part in messages.
    ///   - hint: advice to print if the build fails.
    /// - Throws: a failure with the output of the build.
    func build(_ part: PackageManager.BuildSubset, _ what: String, hint: String? = nil) throws
        -> PackageManager.BuildResult
    {
        Self.say("building \(what)")
        let result = try packageManager.build(part, parameters: .init(configuration: configuration, logging: .concise))
        if !result.succeeded {
            throw PluginFailure(
                message: "cannot build \(what)\n\(result.logText)" + (hint.map { "\nhint: \($0)" } ?? ""))
        }
        return result
    }

    /// Runs a program guarded, on the standard streams of `swift package` if they can be opened.
    ///
    /// - Parameter options: options of `zguard run`.
    /// - Returns: the exit status of `zguard run`, or 128 plus the number of the signal that killed it.
    func run(_ program: String, _ words: [String], options: [String]) throws -> Int32 {
        var environment = self.environment
        let zguard: String
        var link: URL?
        defer { if let link { try? FileManager.default.removeItem(at: link) } }
        if let installed = try installedZGuard() {
            zguard = installed
        } else {
            zguard = try builtZGuard()
            if environment["ZGUARD_LIBRARY"] == nil {
                var library = try builtLibrary()
                // LD_PRELOAD separates paths by blanks and colons, so a path that contains one is passed as a symbolic
                // link.
                if library.path.contains(where: { " :".contains($0) }) {
                    link = FileManager.default.temporaryDirectory.appendingPathComponent("zguard-\(UUID().uuidString)")
                    try FileManager.default.createDirectory(
                        at: link!, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
                    let name = link!.appendingPathComponent("libzguard.so")
                    try FileManager.default.createSymbolicLink(at: name, withDestinationURL: library)
                    library = name
                }
                environment["ZGUARD_LIBRARY"] = library.path
            }
        }
        // A test bundle asks this zguard about its heap (ZombieGuardTesting).
        environment["ZGUARD"] = zguard
        return try Self.run([zguard, "run"] + options + ["--", program] + words, environment)
    }

    // MARK: zguard

    // Returns the zguard named by the variable ZGUARD, or else the first on the PATH; nil if there is none.
    private func installedZGuard() throws(PluginFailure) -> String? {
        if let named = environment["ZGUARD"], !named.isEmpty {
            guard FileManager.default.isExecutableFile(atPath: named) else {
                throw PluginFailure(message: "ZGUARD is '\(named)', which is no program", status: .cannotGuard)
            }
            return named
        }
        let folders = (environment["PATH"] ?? "").split(separator: ":")
        return folders.map { "\($0)/zguard" }.first { path in
            var isDirectory: ObjCBool = false
            return FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory) && !isDirectory.boolValue
                && FileManager.default.isExecutableFile(atPath: path)
        }
    }

    private func builtZGuard() throws -> String {
        // The package manager takes seconds to see that nothing has changed, so the path is kept in a file.
        let kept = context.pluginWorkDirectoryURL.appendingPathComponent("zguard-\(configuration).path")
        if let path = try? String(contentsOf: kept, encoding: .utf8),
            FileManager.default.isExecutableFile(atPath: path), try isCurrent(kept, ["Sources", "Package.swift"])
        {
            return path
        }
        let start = Date()
        let result = try build(
            .product("zguard"), "zguard, as none is installed",
            hint: "set ZGUARD to the path of an installed zguard")
        guard
            let file = result.builtArtifacts.first(where: {
                $0.kind == .executable && $0.url.lastPathComponent == "zguard"
            })
        else { throw PluginFailure(message: "the build produced no zguard", status: .cannotGuard) }
        try file.url.path.write(to: kept, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.modificationDate: start], ofItemAtPath: kept.path)
        return file.url.path
    }

    // Whether a file is newer than these sources of ZombieGuard.
    private func isCurrent(_ file: URL, _ sources: [String]) throws(PluginFailure) -> Bool {
        guard let made = Self.changed(file) else { return false }
        let package = try zombieGuard()
        return sources.allSatisfy { Self.newest(package.appendingPathComponent($0)) < made }
    }

    // Links the library like scripts/build. A dynamic library built by the package manager would load the Swift runtime
    // into every guarded process.
    private func builtLibrary() throws -> URL {
        let package = try zombieGuard()
        let library = context.pluginWorkDirectoryURL.appendingPathComponent("libzguard.so")
        let sources = ["Sources/CZombie", "Sources/CZombiePublish", "scripts/common.sh", "Package.swift"]
        if try isCurrent(library, sources) { return library }
        Self.say("building the runtime library")
        let fresh = context.pluginWorkDirectoryURL.appendingPathComponent("libzguard.so.new")
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        process.arguments = [
            "-c", "source \"$1/scripts/common.sh\"; find_toolchain; build_library \"$2\"", "zguard", package.path,
            fresh.path,
        ]
        var environment = self.environment
        let toolchain = try context.tool(named: "swift").url.deletingLastPathComponent().path
        environment["PATH"] = "\(toolchain):\(environment["PATH"] ?? "/usr/bin:/bin")"
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0, rename(fresh.path, library.path) == 0 else {
            throw PluginFailure(message: "cannot build the runtime library in '\(library.path)'", status: .cannotGuard)
        }
        return library
    }

    // Finds ZombieGuard: this package or one of its direct or indirect dependencies.
    private func zombieGuard() throws(PluginFailure) -> URL {
        var packages = [context.package]
        var seen: Set<String> = []
        while !packages.isEmpty {
            let package = packages.removeFirst()
            guard seen.insert(package.id).inserted else { continue }
            let source = package.directoryURL.appendingPathComponent("Sources/CZombiePublish/publish.c")
            if FileManager.default.fileExists(atPath: source.path) { return package.directoryURL }
            packages += package.dependencies.map(\.package)
        }
        throw PluginFailure(message: "the package does not depend on ZombieGuard", status: .cannotGuard)
    }

    private static func changed(_ file: URL) -> Date? {
        (try? FileManager.default.attributesOfItem(atPath: file.path))?[.modificationDate] as? Date
    }

    private static func newest(_ folder: URL) -> Date {
        let files =
            FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)?.compactMap { $0 as? URL } ?? []
        return ([folder] + files).compactMap(changed).max() ?? .distantFuture
    }

    // MARK: Processes and streams

    // Runs the program in the process group of the package manager. Foundation would put it into a background group,
    // where it could not read from the terminal and would survive Ctrl-C.
    private static func run(_ words: [String], _ environment: [String: String]) throws -> Int32 {
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        let input = stream(STDIN_FILENO, O_RDONLY) ?? .nullDevice
        let output = stream(STDOUT_FILENO, O_WRONLY) ?? .standardError
        let errors = stream(STDERR_FILENO, O_WRONLY) ?? .standardError
        for (number, file) in [input, output, errors].enumerated() {
            // If a stream could not be opened, `file` is the plugin's standard error, which the package manager relays.
            posix_spawn_file_actions_adddup2(&actions, file.fileDescriptor, Int32(number))
        }
        keepDescriptors()
        posix_spawnattr_setpgroup(&attributes, getpgid(getppid()))
        // Unblocks all signals: Dispatch blocks signals on its worker threads, such as this one.
        var unblocked = sigset_t()
        sigemptyset(&unblocked)
        posix_spawnattr_setsigmask(&attributes, &unblocked)
        var arguments = words.map { strdup($0) } + [nil]
        var variables = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in arguments + variables { free(text) } }
        var child: pid_t = 0
        var status: Int32 = 0
        for flags in [POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK, POSIX_SPAWN_SETSIGMASK] {
            posix_spawnattr_setflags(&attributes, Int16(flags))
            status = posix_spawn(&child, words[0], &actions, &attributes, &arguments, &variables)
            if status != EPERM { break }
        }
        guard status == 0 else {
            throw PluginFailure(
                message: "cannot run '\(words[0])': \(String(cString: strerror(status)))", status: .cannotGuard)
        }
        let forwarding = [SIGINT, SIGTERM, SIGHUP].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { [child] in kill(child, number) }
            source.resume()
            return source
        }
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        withExtendedLifetime((forwarding, input, output, errors)) {}
        let end = status & 0x7f
        return end == 0 ? status >> 8 & 0xff : 128 + end
    }

    // Sets close-on-exec on all descriptors but the standard streams, so that the program inherits none of them. The
    // package manager waits until every copy is closed.
    private static func keepDescriptors() {
        for name in (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? [] {
            guard let number = Int32(name), number > STDERR_FILENO else { continue }
            _ = fcntl(number, F_SETFD, fcntl(number, F_GETFD) | FD_CLOEXEC)
        }
    }

    private static func say(_ text: String) {
        (stream(STDERR_FILENO, O_WRONLY) ?? .standardError).write(Data("zguard: \(text)\n".utf8))
    }

    // Opens a standard stream of the package manager through /proc. The plugin's own streams are connected to the
    // package manager, which relays output. Returns nil for an output file: a second descriptor would have its own file
    // offset and overwrite the package manager's output, so the relay is used.
    private static func stream(_ number: Int32, _ mode: Int32) -> FileHandle? {
        let descriptor = open("/proc/\(getppid())/fd/\(number)", mode | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        var status = stat()
        let isOurs = fstat(descriptor, &status) == 0
        let kind = status.st_mode & S_IFMT
        let isFile = kind == S_IFREG && number == STDIN_FILENO
        guard isOurs, kind == S_IFIFO || kind == S_IFCHR || isFile else {
            close(descriptor)
            return nil
        }
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK)
        return FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }
}

extension CommandPlugin {
    /// Parses the arguments, runs `body`, and exits with its status. Reports errors.
    func perform(
        _ words: [String], _ table: PluginArguments.Table, _ body: (PluginArguments) throws -> Int32
    ) -> Never {
        do {
            // --help works even if the other arguments are wrong.
            let own =
                table.takesProgram ? words.prefix { $0.hasPrefix("-") && $0 != "--" } : words.prefix { $0 != "--" }
            if own.contains("--help") || own.contains("-h") {
                print(table.help, terminator: "")
                exit(0)
            }
            exit(try body(try PluginArguments(words, table)))
        } catch let error as PluginArguments.UsageError {
            Diagnostics.error(error.message)
            exit(PluginFailure.Status.usage.rawValue)
        } catch let error as PluginFailure {
            Diagnostics.error(error.message)
            exit(error.status.rawValue)
        } catch {
            Diagnostics.error("\(error)")
            exit(PluginFailure.Status.failure.rawValue)
        }
    }
}
