// A server of HTTP/1.1 for this machine alone. One thread polls all connections, so that a slow one costs a descriptor and not a
// thread; other threads make the pages.

import CSystem
import Glibc

/// Listens on 127.0.0.1.
public final class HTTPServer: Sendable {
    private let listener: Descriptor
    private let queue: PageQueue
    /// The port that it listens on.
    public let port: UInt16

    // Cut to net.core.somaxconn. Connections wait there only until the polling thread has gone round once.
    private static let backlog: Int32 = 4096
    private static let mostConnections = 1000
    /// Descriptors for what makes pages: a database, and files with symbols.
    private static let descriptorsOfPages = 64
    /// Of responses that clients are slow to read.
    private static let mostUnsent = 64 << 20
    private static let mostAcceptedInARound = 64

    /// Begins to listen.
    ///
    /// - Parameter port: 0: one that is free.
    /// - Throws: ``SystemError`` where the port cannot be had.
    public init(port: UInt16) throws(SystemError) {
        queue = try PageQueue()
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let number = socket(AF_INET, kind, 0)
        if number < 0 { throw .last }
        listener = Descriptor(adopting: number)
        var yes: Int32 = 1
        setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(number, $0, length) }
        }
        if bound != 0 || listen(number, Self.backlog) != 0 { throw .last }
        _ = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(number, $0, &length) }
        }
        self.port = UInt16(bigEndian: address.sin_port)
    }

    /// Answers connections, for ever: this thread polls them.
    ///
    /// - Parameters:
    ///   - threads: so many make pages.
    ///   - prepare: called in each of them, for what makes its pages.
    /// - Returns: Never; it throws before it answers.
    /// - Throws: ``SystemError`` where no thread can be started.
    public func serve(threads: Int, _ prepare: @escaping @Sendable () -> (HTTPRequest) -> HTTPResponse)
        throws(SystemError) -> Never
    {
        var started = 0
        for _ in 0..<threads {
            let result = startThread(prepare)
            if result == 0 { started += 1 } else if started == 0 { throw SystemError(number: -result) }
        }
        var connections = HTTPConnections(besides: [queue.finished, listener], queue: queue, port: port)
        while true {
            connections.wait()
            let now = MonotonicTime.milliseconds
            let (hasPages, hasClients) = (connections.isReady(0), connections.isReady(1))
            connections.proceed(now: now)
            if hasPages { connections.send(queue.takePages(), mostUnsent: Self.mostUnsent, now: now) }
            if hasClients { accept(into: &connections, now: now) }
        }
    }

    private func startThread(_ prepare: @escaping @Sendable () -> (HTTPRequest) -> HTTPResponse) -> Int32 {
        final class Work {
            let run: () -> Void
            init(_ run: @escaping () -> Void) { self.run = run }
        }
        let work = Unmanaged.passRetained(Work { [queue] in queue.makePages(prepare()) })
        let result = zg_system_start_thread(
            "zguard-pages", { Unmanaged<Work>.fromOpaque($0!).takeRetainedValue().run() }, work.toOpaque())
        if result != 0 { work.release() }
        return result
    }

    private func accept(into connections: inout HTTPConnections, now: UInt64) {
        for _ in 0..<Self.mostAcceptedInARound {
            let accepted = Glibc.accept(listener.number, nil, nil)
            if accepted >= 0 {
                _ = fcntl(accepted, F_SETFD, FD_CLOEXEC)
                // Most clients have sent their request by now: they are past the stage in which places are taken away first.
                connections.add(Descriptor(adopting: accepted), now: now)
                if connections.count > Self.limit { _ = connections.closeSome() }
                continue
            }
            if errno == EAGAIN { return }
            if errno == EINTR || errno == ECONNABORTED { continue }
            // No descriptors or no memory, most likely. Where there is nothing to give up it is tried again later.
            if !connections.closeSome() {
                usleep(100_000)
                return
            }
        }
    }

    /// The limit on descriptors may be lowered from outside (prlimit).
    private static var limit: Int {
        var limits = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limits) == 0 else { return mostConnections }
        let descriptors = Int(clamping: limits.rlim_cur)
        return max(1, min(mostConnections, max(descriptors - descriptorsOfPages, descriptors / 2)))
    }
}
