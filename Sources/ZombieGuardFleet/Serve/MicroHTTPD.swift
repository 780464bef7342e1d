// Loads libmicrohttpd, which parses HTTP and speaks TLS for `zguard serve`.

import Glibc
import ZombieGuard

struct MicroHTTPD: Sendable {
    typealias Daemon = OpaquePointer
    typealias Connection = OpaquePointer
    typealias Response = OpaquePointer
    typealias Raw = UnsafeMutableRawPointer
    typealias Text = UnsafePointer<CChar>

    // Callbacks (microhttpd.h). The first argument of each is the pointer that was registered with the callback.
    typealias Handler =
        @convention(c) (
            Raw?, Connection?, Text?, Text?, Text?, UnsafeRawPointer?, UnsafeMutablePointer<Int>?,
            UnsafeMutablePointer<Raw?>?
        ) -> CInt
    typealias LineCallback = @convention(c) (Raw?, Text?, Connection?) -> Raw?
    typealias Unescape = @convention(c) (Raw?, Connection?, UnsafeMutablePointer<CChar>?) -> Int
    typealias Notify = @convention(c) (Raw?, Connection?, UnsafeMutablePointer<Raw?>?, CInt) -> Void
    typealias Header = @convention(c) (Raw?, CInt, Text?, Text?) -> CInt

    // MHD_start_daemon and MHD_get_connection_info are variadic. x86-64 and arm64 Linux pass variadic pointers and
    // integers like those that are declared as parameters.
    typealias Start =
        @convention(c) (CUnsignedInt, UInt16, Raw?, Raw?, Handler, Raw?, CInt, Raw?, CInt) -> Daemon?
    typealias Info = @convention(c) (Connection, CInt) -> UnsafeRawPointer?
    typealias Values = @convention(c) (Connection, CInt, Header, Raw?) -> CInt
    typealias Create = @convention(c) (Int, UnsafeRawPointer?, CInt) -> Response?
    typealias AddHeader = @convention(c) (Response, Text, Text) -> CInt
    typealias Destroy = @convention(c) (Response) -> Void
    typealias Queue = @convention(c) (Connection, CUnsignedInt, Response) -> CInt
    typealias Change = @convention(c) (Connection) -> Void
    typealias IsSupported = @convention(c) (CInt) -> CInt

    let start: Start, info: Info, values: Values, create: Create, addHeader: AddHeader, destroy: Destroy, queue: Queue
    let suspend: Change, resume: Change, isSupported: IsSupported

    /// `struct MHD_OptionItem`.
    struct Option {
        var number: CInt
        var value = 0
        var pointer: Raw?

        // Numbers of MHD_OPTION_…; part of the ABI.
        static let end: CInt = 0, memory: CInt = 1, connections: CInt = 2, timeout: CInt = 3, line: CInt = 7
        static let key: CInt = 8, certificate: CInt = 9, priorities: CInt = 11, listener: CInt = 12
        static let array: CInt = 15, unescape: CInt = 16, notify: CInt = 27, strict: CInt = 29

        static func number(_ option: CInt, _ value: Int) -> Option { Option(number: option, value: value) }
        static func pointer(_ option: CInt, _ pointer: Raw?) -> Option { Option(number: option, pointer: pointer) }
        /// A callback, with the pointer that it gets.
        static func callback<Function>(_ option: CInt, _ function: Function, _ pointer: Raw?) -> Option {
            Option(number: option, value: unsafeBitCast(function, to: Int.self), pointer: pointer)
        }
    }

    /// MHD_USE_EPOLL, MHD_USE_INTERNAL_POLLING_THREAD, and MHD_ALLOW_SUSPEND_RESUME with its MHD_USE_ITC.
    static let flags: CUnsignedInt = 512 | 8 | 8192 | 1024
    /// MHD_USE_TLS.
    static let encrypted: CUnsignedInt = 2
    static let yes: CInt = 1, no: CInt = 0
    /// MHD_FEATURE_TLS.
    static let featureOfTLS: CInt = 2
    /// MHD_HEADER_KIND.
    static let headers: CInt = 1
    /// MHD_RESPMEM_MUST_COPY.
    static let copied: CInt = 2
    /// MHD_CONNECTION_NOTIFY_STARTED.
    static let started: CInt = 0
    // MHD_CONNECTION_INFO_….
    private static let descriptor: CInt = 6, context: CInt = 7

    init() throws(FleetError) {
        let library = try SharedLibrary("libmicrohttpd.so.12", package: "libmicrohttpd12")
        start = try library.function("MHD_start_daemon", Start.self)
        info = try library.function("MHD_get_connection_info", Info.self)
        values = try library.function("MHD_get_connection_values", Values.self)
        create = try library.function("MHD_create_response_from_buffer", Create.self)
        addHeader = try library.function("MHD_add_response_header", AddHeader.self)
        destroy = try library.function("MHD_destroy_response", Destroy.self)
        queue = try library.function("MHD_queue_response", Queue.self)
        suspend = try library.function("MHD_suspend_connection", Change.self)
        resume = try library.function("MHD_resume_connection", Change.self)
        isSupported = try library.function("MHD_is_feature_supported", IsSupported.self)
    }

    /// The socket of a connection.
    func socket(of connection: Connection) -> CInt {
        info(connection, Self.descriptor)?.load(as: CInt.self) ?? -1
    }

    /// The pointer that the notification of the connection's start has stored.
    func context(of connection: Connection) -> Raw? { info(connection, Self.context)?.load(as: Raw?.self) }

    /// The headers of a request, in their order.
    func headers(of connection: Connection) -> [(name: String, value: String)] {
        var headers: [(name: String, value: String)] = []
        withUnsafeMutablePointer(to: &headers) { list in
            _ = values(
                connection, Self.headers,
                { list, _, name, value in
                    let entry = (
                        name: name.map { String(cString: $0) } ?? "", value: value.map { String(cString: $0) } ?? ""
                    )
                    list?.assumingMemoryBound(to: [(name: String, value: String)].self).pointee.append(entry)
                    return MicroHTTPD.yes
                }, list)
        }
        return headers
    }
}

/// A response as libmicrohttpd sends it, to any number of connections.
final class EncodedResponse: @unchecked Sendable {
    let status: Int
    /// Bytes of the body.
    let count: Int
    private let response: MicroHTTPD.Response
    private let library: MicroHTTPD

    /// Returns nil if memory is short.
    init?(_ source: HTTPResponse, _ library: MicroHTTPD) {
        var body = source.body
        let made = body.withUTF8 { library.create($0.count, $0.baseAddress, MicroHTTPD.copied) }
        guard let made else { return nil }
        for (name, value) in source.headers { _ = library.addHeader(made, name, value) }
        (response, self.library, status, count) = (made, library, source.status, source.body.utf8.count)
    }

    deinit { library.destroy(response) }

    /// Lets the polling thread send the response.
    func send(to connection: MicroHTTPD.Connection) -> CInt {
        library.queue(connection, CUnsignedInt(status), response)
    }
}
