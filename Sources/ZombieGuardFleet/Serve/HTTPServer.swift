// HTTP/1.1 server for local clients. One thread polls all connections, so that a slow client costs a descriptor and not
// a thread. Other threads make the pages.

import CSystem
import Glibc
import ZombieGuard

/// A server that listens on 127.0.0.1 only.
public final class HTTPServer: Sendable {
    private let listener: Descriptor
    private let queue: PageQueue
    /// The port that the server listens on.
    public let port: UInt16

    // Length of the queue of connections to accept, which the kernel limits to net.core.somaxconn. Connections wait in
    // it for one poll iteration at most.
    private static let backlog: Int32 = 4096
    private static let mostConnections = 1000
    /// Descriptors reserved for making pages: a database connection, and files with symbols.
    private static let descriptorsOfPages = 64
    /// Limit on response bytes that slow clients have not read.
    private static let mostUnsent = 64 << 20
    private static let mostAcceptedInARound = 64

    /// Binds the port and starts to listen.
    ///
    /// - Parameter port: port number; 0 for any free port.
    /// - Throws: ``SystemError`` if the port is not available.
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

    /// Serves connections forever. The calling thread becomes the polling thread.
    ///
    /// - Parameters:
    ///   - threads: number of threads that make pages.
    ///   - prepare: called once in each of these threads; returns the function that makes its pages.
    /// - Returns: Never returns; throws before the first connection if at all.
    /// - Throws: ``SystemError`` if no thread can be started.
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
                // Reads the request at once if it has arrived, because connections without a request are the first to
                // be closed.
                connections.add(Descriptor(adopting: accepted), now: now)
                if connections.count > Self.limit { _ = connections.closeSome() }
                continue
            }
            if errno == EAGAIN { return }
            if errno == EINTR || errno == ECONNABORTED { continue }
            // Probably out of descriptors or memory. If there is no connection to close, try again later.
            if !connections.closeSome() {
                usleep(100_000)
                return
            }
        }
    }

    /// Maximum number of connections. Read each time, because prlimit(2) may lower RLIMIT_NOFILE from outside.
    private static var limit: Int {
        var limits = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limits) == 0 else { return mostConnections }
        let descriptors = Int(clamping: limits.rlim_cur)
        return max(1, min(mostConnections, max(descriptors - descriptorsOfPages, descriptors / 2)))
    }
}
