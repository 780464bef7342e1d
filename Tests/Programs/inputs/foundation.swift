// A broad use of Foundation: coding, expressions, dates, files, processes, operations, timers, XML, the network, tasks.
import Foundation
import Dispatch

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif
#if canImport(FoundationXML)
    import FoundationXML
#endif

struct Item: Codable, Hashable {
    var id: Int
    var name: String
    var price: Decimal
    var tags: Set<String>
    var made: Date
    var parts: [Item]
}

func items(_ count: Int) -> [Item] {
    (0..<count).map { i in
        Item(
            id: i, name: "Ítem \(i * 7919 % 997)", price: Decimal(i) / 4, tags: ["t\(i % 7)", "u\(i % 3)"],
            made: Date(timeIntervalSince1970: Double(i) * 86_400),
            parts: i % 50 == 0 ? [Item(id: -i, name: "part", price: 1, tags: [], made: .distantPast, parts: [])] : [])
    }
}

func coding() throws {
    let all = items(2000)
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .prettyPrinted]
    encoder.dateEncodingStrategy = .iso8601
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .iso8601
    let data = try encoder.encode(all.map { item in var copy = item; copy.tags = copy.tags.count > 5 ? [] : [copy.tags.sorted()[0]]; return copy })
    let back = try decoder.decode([Item].self, from: data)
    print("json", data.count, back.count, back.reduce(Decimal(0)) { $0 + $1.price })
    do { _ = try decoder.decode([Item].self, from: Data(#"[{"id": 1, "name": 3}]"#.utf8)) } catch DecodingError.typeMismatch(_, let context) {
        print("mismatch at", context.codingPath.map(\.stringValue))
    }
    let list = try PropertyListEncoder().encode(["a": [1, 2, 3], "b": Array(0..<500)])
    print("plist", try PropertyListDecoder().decode([String: [Int]].self, from: list)["b"]!.reduce(0, +))
    let object = try JSONSerialization.jsonObject(with: data) as! [[String: Any]]
    print("objects", object.count, object[7]["name"] as! String)
}

func texts() throws {
    let text = (0..<3000).map { "key\($0)=value-\($0 * 31 % 101);" }.joined(separator: "\n")
    let expression = try NSRegularExpression(pattern: #"key(\d+)=value-(\d+)"#)
    let matches = expression.matches(in: text, range: NSRange(text.startIndex..., in: text))
    let sum = matches.reduce(0) { $0 + Int((text as NSString).substring(with: $1.range(at: 2)))! }
    print("matches", matches.count, sum)
    print(expression.stringByReplacingMatches(in: "key1=value-2 key3=value-4", range: NSRange(location: 0, length: 25), withTemplate: "$2:$1"))
    let formatter = DateFormatter()
    formatter.locale = Locale(identifier: "en_US_POSIX")
    formatter.timeZone = TimeZone(identifier: "Europe/Vienna")
    formatter.dateFormat = "EEEE yyyy-MM-dd HH:mm:ss zzz"
    for i in 0..<4 { print(formatter.string(from: Date(timeIntervalSince1970: Double(i) * 15_000_000))) }
    let numbers = NumberFormatter()
    numbers.numberStyle = .decimal
    numbers.locale = Locale(identifier: "de_AT")
    print(numbers.string(from: 1234567.891)!, "straße".uppercased(), "e\u{301}" == "é", "a,b,,c".components(separatedBy: ","))
    let calendar = Calendar(identifier: .gregorian)
    print(calendar.dateComponents([.year, .weekday], from: Date(timeIntervalSince1970: 1_700_000_000)).weekday!)
    let attributed = NSMutableAttributedString(string: String(repeating: "word ", count: 200))
    for i in stride(from: 0, to: 1000, by: 10) { attributed.addAttribute(NSAttributedString.Key("k"), value: i, range: NSRange(location: i, length: 4)) }
    var runs = 0
    attributed.enumerateAttributes(in: NSRange(location: 0, length: attributed.length)) { _, _, _ in runs += 1 }
    print("runs", runs)
}

func files() throws {
    let manager = FileManager.default
    let folder = manager.temporaryDirectory.appendingPathComponent("work")
    try manager.createDirectory(at: folder.appendingPathComponent("a/b"), withIntermediateDirectories: true)
    for i in 0..<60 { try Data(repeating: UInt8(i), count: i * 100).write(to: folder.appendingPathComponent("a/f\(i)"), options: .atomic) }
    try manager.moveItem(at: folder.appendingPathComponent("a/f3"), to: folder.appendingPathComponent("a/b/moved"))
    let found = manager.enumerator(at: folder, includingPropertiesForKeys: [.fileSizeKey])!.compactMap { $0 as? URL }
    print("files", found.count, try found.reduce(0) { $0 + (try $1.resourceValues(forKeys: [.fileSizeKey]).fileSize ?? 0) } > 170_000)
    do { _ = try String(contentsOf: folder.appendingPathComponent("absent"), encoding: .utf8) } catch { print("absent", (error as NSError).code) }
    try manager.removeItem(at: folder)
    let process = Process(), output = Pipe(), input = Pipe()
    process.executableURL = URL(fileURLWithPath: "/bin/sh")
    process.arguments = ["-c", "sort -r | head -3; exit 5"]
    process.standardOutput = output
    process.standardInput = input
    try process.run()
    input.fileHandleForWriting.write(Data((0..<500).map { "line \($0)\n" }.joined().utf8))
    try input.fileHandleForWriting.close()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    print(text.split(separator: "\n"), process.terminationStatus)
}

final class Counter: @unchecked Sendable {
    private let lock = NSLock()
    private var value = 0
    func add(_ n: Int) { lock.withLock { value += n } }
    var total: Int { lock.withLock { value } }
}

func operations() {
    let queue = OperationQueue(), counter = Counter()
    queue.maxConcurrentOperationCount = 4
    var last: Operation?
    for i in 0..<300 {
        let operation = BlockOperation { counter.add((0..<(i % 40)).map { "\($0)" }.joined().count) }
        if i % 5 == 0, let last { operation.addDependency(last) }
        if i % 50 == 7 { operation.cancel() }
        queue.addOperation(operation)
        last = operation
    }
    queue.waitUntilAllOperationsAreFinished()
    print("operations", counter.total)
    let token = NotificationCenter.default.addObserver(forName: Notification.Name("n"), object: nil, queue: nil) { counter.add($0.userInfo!["by"] as! Int) }
    for i in 0..<100 { NotificationCenter.default.post(name: Notification.Name("n"), object: nil, userInfo: ["by": i]) }
    NotificationCenter.default.removeObserver(token)
    print("notified", counter.total)
    let cache = NSCache<NSString, NSData>()
    cache.countLimit = 20
    for i in 0..<500 { cache.setObject(NSData(data: Data(count: 100)), forKey: "k\(i)" as NSString) }
    print("cached", cache.object(forKey: "k499") != nil)
    let fired = Counter()
    let timer = Timer(timeInterval: 0.005, repeats: true) { timer in
        fired.add(1)
        if fired.total == 10 { timer.invalidate(); CFRunLoopStopHere() }
    }
    RunLoop.current.add(timer, forMode: .default)
    while fired.total < 10, RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 5)) {}
    print("fired", fired.total)
}

func CFRunLoopStopHere() {}

final class Reader: NSObject, XMLParserDelegate {
    var names: [String: Int] = [:], depth = 0, deepest = 0, text = 0
    func parser(_ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?, attributes: [String: String] = [:]) {
        names[name, default: 0] += attributes.count + 1
        depth += 1
        deepest = max(deepest, depth)
    }
    func parser(_ parser: XMLParser, didEndElement name: String, namespaceURI: String?, qualifiedName: String?) { depth -= 1 }
    func parser(_ parser: XMLParser, foundCharacters string: String) { text += string.count }
}

func xml() throws {
    let source = "<all>" + (0..<1500).map { "<item id='\($0)' kind='k\($0 % 5)'><name>n\($0)</name><deep><er>&amp;\($0)</er></deep></item>" }.joined() + "</all>"
    let reader = Reader(), parser = XMLParser(data: Data(source.utf8))
    parser.delegate = reader
    print("xml", parser.parse(), reader.names.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }, reader.deepest, reader.text)
    let broken = XMLParser(data: Data("<a><b></a>".utf8))
    print("broken", broken.parse())
    let document = try XMLDocument(xmlString: source)
    print("nodes", try document.nodes(forXPath: "//item[@kind='k3']/name").count)
}

actor Ledger {
    private var entries: [Int: [String]] = [:]
    func add(_ key: Int, _ text: String) { entries[key, default: []].append(text) }
    var count: Int { entries.values.reduce(0) { $0 + $1.count } }
}

func network(_ base: URL) async throws {
    let session = URLSession(configuration: .ephemeral)
    var sizes = [Int](repeating: 0, count: 12)
    try await withThrowingTaskGroup(of: (Int, Int).self) { group in
        for i in 0..<12 {
            group.addTask {
                let (data, response) = try await session.data(from: base.appendingPathComponent("\(i % 6).txt"))
                return (i, data.count + (response as! HTTPURLResponse).statusCode)
            }
        }
        for try await (i, size) in group { sizes[i] = size }
    }
    print("network", sizes)
    var request = URLRequest(url: base.appendingPathComponent("post"))
    request.httpMethod = "POST"
    request.httpBody = Data(repeating: 7, count: 100_000)
    let (answer, _) = try await session.data(for: request)
    print(String(decoding: answer, as: UTF8.self), terminator: "")
    let (_, absent) = try await session.data(from: base.appendingPathComponent("absent"))
    print((absent as! HTTPURLResponse).statusCode)
    session.finishTasksAndInvalidate()
}

@main struct Main {
    static func main() async throws {
        setvbuf(stdout, nil, _IOLBF, 0)
        try coding()
        try texts()
        try files()
        operations()
        try xml()
        let ledger = Ledger()
        await withTaskGroup(of: Void.self) { group in
            for i in 0..<200 {
                group.addTask {
                    for j in 0..<10 { await ledger.add(i % 17, "entry \(j)") }
                    await Task.yield()
                }
            }
        }
        print("ledger", await ledger.count)
        let stream = AsyncStream<Int> { continuation in
            Task { for i in 0..<500 { continuation.yield(i); if i % 100 == 0 { try? await Task.sleep(nanoseconds: 1_000_000) } }; continuation.finish() }
        }
        var sum = 0
        for await value in stream { sum += value }
        print("stream", sum)
        let sleeper = Task { try await Task.sleep(nanoseconds: 3_600_000_000_000) }
        sleeper.cancel()
        print("cancelled", await sleeper.result.isFailure)
        try await network(URL(string: CommandLine.arguments[1])!)
        exit(7)
    }
}

extension Result { var isFailure: Bool { if case .failure = self { true } else { false } } }
