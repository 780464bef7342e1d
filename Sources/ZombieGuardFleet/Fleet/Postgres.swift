// Loads libpq and executes statements with it.

import Glibc
import ZombieGuard

private struct PostgresLibrary: Sendable {
    typealias Handle = OpaquePointer
    typealias Texts = UnsafePointer<UnsafePointer<CChar>?>
    typealias Connect = @convention(c) (Texts, Texts, CInt) -> Handle?
    typealias Status = @convention(c) (Handle?) -> CInt
    typealias Message = @convention(c) (Handle?) -> UnsafePointer<CChar>?
    typealias End = @convention(c) (Handle?) -> Void
    typealias Execute = @convention(c) (Handle, UnsafePointer<CChar>) -> Handle?
    typealias Query =
        @convention(c) (
            Handle, UnsafePointer<CChar>, CInt, UnsafeRawPointer?, Texts?, UnsafeRawPointer?, UnsafeRawPointer?, CInt
        ) -> Handle?
    typealias Cell = @convention(c) (Handle?, CInt, CInt) -> CInt
    typealias Value = @convention(c) (Handle?, CInt, CInt) -> UnsafePointer<CChar>?
    typealias Field = @convention(c) (Handle?, CInt) -> UnsafePointer<CChar>?
    typealias Processor = @convention(c) (UnsafeMutableRawPointer?, UnsafePointer<CChar>?) -> Void
    typealias SetProcessor = @convention(c) (Handle?, Processor, UnsafeMutableRawPointer?) -> UnsafeRawPointer?

    let connect: Connect, status: Status, message: Message, finish: End, execute: Execute, query: Query
    let resultStatus: Status, rows: Status, columns: Status, isNull: Cell, length: Cell, value: Value
    let field: Field, clear: End, setProcessor: SetProcessor

    init() throws(FleetError) {
        let library = try SharedLibrary("libpq.so.5", package: "libpq5")
        connect = try library.function("PQconnectdbParams", Connect.self)
        status = try library.function("PQstatus", Status.self)
        message = try library.function("PQerrorMessage", Message.self)
        finish = try library.function("PQfinish", End.self)
        execute = try library.function("PQexec", Execute.self)
        query = try library.function("PQexecParams", Query.self)
        resultStatus = try library.function("PQresultStatus", Status.self)
        rows = try library.function("PQntuples", Status.self)
        columns = try library.function("PQnfields", Status.self)
        isNull = try library.function("PQgetisnull", Cell.self)
        length = try library.function("PQgetlength", Cell.self)
        value = try library.function("PQgetvalue", Value.self)
        field = try library.function("PQresultErrorField", Field.self)
        clear = try library.function("PQclear", End.self)
        setProcessor = try library.function("PQsetNoticeProcessor", SetProcessor.self)
    }
}

/// A connection to a PostgreSQL server.
class PostgresConnection {
    private let library: PostgresLibrary
    private let handle: OpaquePointer
    /// SQLSTATE of the last failure.
    var state = ""

    /// Defaults, which the address can override. The timeouts keep zguard from waiting forever for a server that
    /// vanished. They are in seconds, except tcp_user_timeout, which is in milliseconds.
    private static let settings = [
        ("fallback_application_name", "zguard"), ("connect_timeout", "20"), ("keepalives_idle", "30"),
        ("keepalives_interval", "10"), ("keepalives_count", "3"), ("tcp_user_timeout", "60000"),
    ]

    /// - Parameter address: a libpq URI, "postgresql://…".
    init(address: String) throws(FleetError) {
        let library = try PostgresLibrary()
        // libpq expands a URI in "dbname" (expand_dbname = 1). Its settings override those that precede it in the list.
        let settings = Self.settings + [("dbname", address)]
        let texts = (settings.map(\.0) + settings.map(\.1)).map { strdup($0) }
        defer { for text in texts { free(text) } }
        var keys: [UnsafePointer<CChar>?] = texts.prefix(settings.count).map { UnsafePointer($0) }
        var values: [UnsafePointer<CChar>?] = texts.suffix(settings.count).map { UnsafePointer($0) }
        keys.append(nil)
        values.append(nil)
        guard let handle = library.connect(keys, values, 1) else {
            throw FleetError("out of memory for a connection")
        }
        if library.status(handle) != 0 {
            let reason = Self.oneLine(library.message(handle))
            library.finish(handle)
            throw FleetError("cannot connect to PostgreSQL: \(reason)", isTemporary: true)
        }
        _ = library.setProcessor(handle, { _, _ in }, nil)
        (self.library, self.handle) = (library, handle)
    }

    deinit { library.finish(handle) }

    func execute(_ script: String) throws(FleetError) {
        _ = try rows(of: library.execute(handle, script))
    }

    @discardableResult
    func query(_ statement: String, _ parameters: [SQLValue]) throws(FleetError) -> [[SQLValue]] {
        var pointers: [UnsafePointer<CChar>?] = []
        defer { for pointer in pointers { free(UnsafeMutablePointer(mutating: pointer)) } }
        for value in parameters { pointers.append(Self.text(of: value).flatMap { UnsafePointer(strdup($0)) }) }
        let result = pointers.withUnsafeBufferPointer { texts in
            library.query(handle, statement, CInt(parameters.count), nil, texts.baseAddress, nil, nil, 0)
        }
        return try rows(of: result)
    }

    /// Text form of a parameter.
    private static func text(of value: SQLValue) -> String? {
        guard case .bytes(let bytes) = value else { return value.text }
        let digits = Array("0123456789abcdef".utf8)
        return "\\x"
            + String(unsafeUninitializedCapacity: 2 * bytes.count) { buffer in
                for (index, byte) in bytes.enumerated() {
                    buffer[2 * index] = digits[Int(byte >> 4)]
                    buffer[2 * index + 1] = digits[Int(byte & 15)]
                }
                return 2 * bytes.count
            }
    }

    /// Executes one statement. Its parameters are arrays of texts of equal length, in binary form to avoid escaping.
    func query(_ statement: String, arrays: [[String]]) throws(FleetError) -> [[SQLValue]] {
        let arrays = arrays.map(Self.binary)
        var all: [UInt8] = []
        all.reserveCapacity(arrays.reduce(0) { $0 + $1.count })
        for array in arrays { all += array }
        let result = all.withUnsafeBytes { bytes in
            var start = bytes.baseAddress
            let places: [UnsafePointer<CChar>?] = arrays.map { array in
                defer { start = start?.advanced(by: array.count) }
                return start?.assumingMemoryBound(to: CChar.self)
            }
            let binary = [CInt](repeating: 1, count: arrays.count)
            return library.query(
                handle, statement, CInt(arrays.count), nil, places, arrays.map { CInt(clamping: $0.count) }, binary, 0)
        }
        return try rows(of: result)
    }

    /// Binary form of text[]: dimensions, has-nulls flag, element type, length, lower bound, elements with lengths.
    private static func binary(_ texts: [String]) -> [UInt8] {
        var bytes: [UInt8] = []
        func add(_ number: Int) {
            withUnsafeBytes(of: Int32(clamping: number).bigEndian) { bytes += $0 }
        }
        let text = 25
        for number in [1, 0, text, texts.count, 1] { add(number) }
        for text in texts {
            add(text.utf8.count)
            bytes += text.utf8
        }
        return bytes
    }

    private func rows(of result: OpaquePointer?) throws(FleetError) -> [[SQLValue]] {
        defer { library.clear(result) }
        let (emptyQuery, commandOK, tuplesOK): (CInt, CInt, CInt) = (0, 1, 2)
        let status = library.resultStatus(result)
        guard result != nil, [emptyQuery, commandOK, tuplesOK].contains(status) else {
            let sqlState: CInt = 0x43
            state = library.field(result, sqlState).map { String(cString: $0) } ?? ""
            throw FleetError("PostgreSQL: \(Self.oneLine(library.message(handle)))", isTemporary: isTemporary)
        }
        return (0..<library.rows(result)).map { row in
            (0..<library.columns(result)).map { column in
                guard library.isNull(result, row, column) == 0, let start = library.value(result, row, column) else {
                    return .null
                }
                let bytes = UnsafeRawBufferPointer(start: start, count: Int(library.length(result, row, column)))
                return .text(String(decoding: bytes, as: UTF8.self))
            }
        }
    }

    /// Whether the last failure is temporary: no SQLSTATE, or one of the classes connection lost (08), transaction
    /// conflict (40), out of resources (53), lock not available (55) and server shutting down (57).
    private var isTemporary: Bool { state.isEmpty || ["08", "40", "53", "55", "57"].contains(state.prefix(2)) }

    /// Whether the connection is still usable.
    var isUsable: Bool { library.status(handle) == 0 }

    // The first line of a server message, without the prefix "ERROR:" or "FATAL:".
    private static func oneLine(_ message: UnsafePointer<CChar>?) -> String {
        var text = message.map { String(cString: $0) } ?? "no answer"
        text = String(text.split(separator: "\n").first ?? "no answer")
        for start in ["ERROR:", "FATAL:"] where text.hasPrefix(start) { text.removeFirst(start.count) }
        return visible(String(text.drop { $0 == " " }))
    }
}
