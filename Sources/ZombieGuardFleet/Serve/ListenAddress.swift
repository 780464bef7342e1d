// The address that `zguard serve` listens on.

import Glibc
import ZombieGuard

/// An IPv4 or IPv6 address.
public struct ListenAddress: Hashable, Sendable, CustomStringConvertible {
    public let description: String
    private let bytes: [UInt8]

    public static let loopback = ListenAddress("127.0.0.1")!

    /// Parses a numeric address; nil for any other text.
    public init?(_ text: String) {
        var four = in_addr()
        var six = in6_addr()
        if inet_pton(AF_INET, text, &four) == 1 {
            bytes = withUnsafeBytes(of: four) { Array($0) }
        } else if inet_pton(AF_INET6, text, &six) == 1 {
            bytes = withUnsafeBytes(of: six) { Array($0) }
        } else {
            return nil
        }
        description = text
    }

    private var isIPv4: Bool { bytes.count == 4 }

    /// Whether only this machine reaches the address.
    public var isLoopback: Bool {
        isIPv4 ? bytes[0] == 127 : bytes == [UInt8](repeating: 0, count: 15) + [1]
    }

    /// The address in a URL.
    public var host: String { isIPv4 ? description : "[\(description)]" }

    /// Binds a port and listens. Returns the socket and the port.
    func listen(port: UInt16, backlog: Int32) throws(SystemError) -> (Descriptor, UInt16) {
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let number = socket(isIPv4 ? AF_INET : AF_INET6, kind, 0)
        if number < 0 { throw .last }
        let listener = Descriptor(adopting: number)
        var yes: Int32 = 1
        setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_storage()
        var length: socklen_t
        if isIPv4 {
            var four = sockaddr_in()
            four.sin_family = sa_family_t(AF_INET)
            four.sin_port = port.bigEndian
            withUnsafeMutableBytes(of: &four.sin_addr) { $0.copyBytes(from: bytes) }
            length = socklen_t(MemoryLayout<sockaddr_in>.size)
            withUnsafeMutableBytes(of: &address) { to in withUnsafeBytes(of: four) { to.copyMemory(from: $0) } }
        } else {
            var six = sockaddr_in6()
            six.sin6_family = sa_family_t(AF_INET6)
            six.sin6_port = port.bigEndian
            withUnsafeMutableBytes(of: &six.sin6_addr) { $0.copyBytes(from: bytes) }
            length = socklen_t(MemoryLayout<sockaddr_in6>.size)
            withUnsafeMutableBytes(of: &address) { to in withUnsafeBytes(of: six) { to.copyMemory(from: $0) } }
        }
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                if bind(number, pointer, length) != 0 || Glibc.listen(number, backlog) != 0 { return errno }
                return getsockname(number, pointer, &length) == 0 ? 0 : errno
            }
        }
        if result != 0 { throw SystemError(number: result) }
        // The port is at the same offset in sockaddr_in and sockaddr_in6.
        let bound = withUnsafeBytes(of: address) { $0.loadUnaligned(fromByteOffset: 2, as: UInt16.self) }
        return (listener, UInt16(bigEndian: bound))
    }
}
