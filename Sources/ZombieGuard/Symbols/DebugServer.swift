// Fetches debug information and executables from debuginfod servers, through elfutils' libdebuginfod if installed.

import Glibc

/// Asks the servers in DEBUGINFOD_URLS, or no server if the variable is not set. After a timeout, no server is asked
/// again, so waiting is bounded. libdebuginfod keeps the files in its own cache.
final class DebugServer {
    /// Limits on the time to wait for servers, in seconds.
    struct Timeouts: Hashable, Sendable {
        /// Longest wait without receiving a byte.
        var silence = 5.0
        /// Longest total of all downloads.
        var total = 60.0
    }

    enum Kind: String {
        case debugInformation = "debuginfod_find_debuginfo"
        case executable = "debuginfod_find_executable"
    }

    private typealias Begin = @convention(c) () -> OpaquePointer?
    private typealias Find =
        @convention(c) (
            OpaquePointer, UnsafePointer<CChar>, Int32, UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
        ) -> Int32
    private typealias Progress = @convention(c) (OpaquePointer?, Int, Int) -> Int32
    private typealias SetProgress = @convention(c) (OpaquePointer, Progress) -> Void
    private typealias SetUserData = @convention(c) (OpaquePointer, UnsafeMutableRawPointer?) -> Void
    private typealias GetUserData = @convention(c) (OpaquePointer?) -> UnsafeMutableRawPointer?

    /// Progress of one download, shared with the callback.
    private struct Download {
        var lastBytes = 0
        var calls = 0
        var lastProgress: Double
        var end: Double
        var silence: Double
        var hasTimedOut = false
    }

    // Static because the C callback cannot capture anything.
    private static let getUserData = LoadedLibrary(libraryName)?.function(
        "debuginfod_get_user_data", GetUserData.self)
    private static let libraryName = "libdebuginfod.so.1"

    // nil if DEBUGINFOD_URLS names no server, or libdebuginfod is not installed.
    private let library: LoadedLibrary?
    private let client: OpaquePointer?
    private let patience: Timeouts
    private var spent = 0.0
    private(set) var hasTimedOut = false

    init(_ patience: Timeouts) {
        self.patience = patience
        let urls = getenv("DEBUGINFOD_URLS").map { String(cString: $0) } ?? ""
        let isAsked = urls.contains { $0 != " " }
        library = isAsked ? LoadedLibrary(Self.libraryName) : nil
        let begin = library?.function("debuginfod_begin", Begin.self)
        client = begin?()
    }

    deinit {
        typealias End = @convention(c) (OpaquePointer) -> Void
        if let client { library?.function("debuginfod_end", End.self)?(client) }
        // The library is never unloaded: its dependencies do not support unloading.
    }

    /// Downloads a file of a build and returns its path; nil if no server has it or answers in time.
    func path(of kind: Kind, buildID: String) -> String? {
        guard let client, !hasTimedOut, let find = library?.function(kind.rawValue, Find.self),
            let setProgress = library?.function("debuginfod_set_progressfn", SetProgress.self),
            let setUserData = library?.function("debuginfod_set_user_data", SetUserData.self)
        else { return nil }
        let start = MonotonicTime.seconds
        var download = Download(lastProgress: start, end: start + patience.total - spent, silence: patience.silence)
        var path: UnsafeMutablePointer<CChar>?
        let descriptor = withUnsafeMutablePointer(to: &download) { state in
            setUserData(client, state)
            setProgress(client) { client, bytes, _ in DebugServer.isOverdue(client, bytes) ? 1 : 0 }
            return find(client, buildID, 0, &path)
        }
        setUserData(client, nil)
        spent += MonotonicTime.seconds - start
        hasTimedOut = download.hasTimedOut
        defer { free(path) }
        guard descriptor >= 0 else { return nil }
        close(descriptor)
        return path.map { String(cString: $0) }
    }

    // Progress callback: libdebuginfod calls it about once a second while it waits. Returns whether to cancel.
    private static func isOverdue(_ client: OpaquePointer?, _ bytes: Int) -> Bool {
        guard let state = getUserData?(client)?.assumingMemoryBound(to: Download.self) else { return false }
        let now = MonotonicTime.seconds
        // Until a server has answered, libdebuginfod passes the number of callbacks instead of a byte count.
        state.pointee.calls += 1
        if bytes > state.pointee.calls, bytes > state.pointee.lastBytes {
            state.pointee.lastBytes = bytes
            state.pointee.lastProgress = now
        }
        if now > state.pointee.end || now - state.pointee.lastProgress > state.pointee.silence {
            state.pointee.hasTimedOut = true
        }
        return state.pointee.hasTimedOut
    }
}
