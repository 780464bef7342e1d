// Correct programs of many kinds, none of which loses a block. "// case: -" is the only registration of a case: see
// cycles.swift.

import Dispatch
import Foundation
import Glibc
import Observation
import Synchronization

struct Order: Codable {
    var id: Int
    var customer: String
    var lines: [String: Double]
    var placed: Date
}
// case: -
func json(_ isFixed: Bool) {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
    encoder.dateEncodingStrategy = .iso8601
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .iso8601
    for number in 0..<20 {
        let order = Order(
            id: number, customer: "customer \(number) of many", lines: ["a": 1.5, "b": 2], placed: Date())
        let data = try! encoder.encode([order])
        let back = try! decoder.decode([Order].self, from: data)
        precondition(back[0].id == number)
    }
    _ = try? decoder.decode(Order.self, from: Data("{".utf8))
    let object = try! JSONSerialization.jsonObject(with: Data(#"{"a": [1, 2, {"b": null}]}"#.utf8)) as! [String: Any]
    precondition(object.count == 1)
}
// case: -
func propertyList(_ isFixed: Bool) {
    let data = try! PropertyListSerialization.data(
        fromPropertyList: ["name": "a long name of a thing", "numbers": [1, 2, 3]], format: .xml, options: 0)
    let back = try! PropertyListSerialization.propertyList(from: data, format: nil) as! [String: Any]
    precondition(back.count == 2)
    _ = try! PropertyListDecoder().decode([String: [Int]].self, from: PropertyListEncoder().encode(["a": [1, 2]]))
}
// case: -
func regexes(_ isFixed: Bool) {
    let regex = /(?<name>\w+)@(?<host>[\w.]+)/
    var hosts: [Substring] = []
    for match in "ann@example.com, bob@example.org".matches(of: regex) { hosts.append(match.host) }
    precondition(hosts.count == 2)
    let made = try! Regex("[0-9]{2,4}")
    precondition("in 2024".firstMatch(of: made) != nil)
    precondition("a-b-c".replacing(/-/, with: "+") == "a+b+c")
}
// case: -
func oldRegexes(_ isFixed: Bool) {
    let expression = try! NSRegularExpression(pattern: "([a-z]+)=([0-9]+)")
    let text = "width=10 height=20"
    let found = expression.matches(in: text, range: NSRange(text.startIndex..., in: text))
    precondition(found.count == 2)
    precondition(text.range(of: "h.*t", options: .regularExpression) != nil)
}
// case: -
func dates(_ isFixed: Bool) {
    let formatter = DateFormatter()
    formatter.dateFormat = "yyyy-MM-dd HH:mm"
    formatter.timeZone = TimeZone(identifier: "Europe/Berlin")
    formatter.locale = Locale(identifier: "de_DE")
    let date = Date(timeIntervalSince1970: 1_000_000_000)
    precondition(formatter.date(from: formatter.string(from: date)) != nil)
    let calendar = Calendar(identifier: .gregorian)
    let next = calendar.date(byAdding: .month, value: 1, to: date)!
    precondition(calendar.dateComponents([.day], from: date, to: next).day != nil)
    _ = ISO8601DateFormatter().string(from: date)
    _ = date.formatted(.iso8601)
    let numbers = NumberFormatter()
    numbers.numberStyle = .decimal
    _ = numbers.string(from: 1234.5)
}
// case: -
func urls(_ isFixed: Bool) {
    var components = URLComponents(string: "https://example.com/a/b?x=1&y=2#part")!
    components.queryItems?.append(URLQueryItem(name: "z", value: "a value with spaces"))
    let url = components.url!
    precondition(url.lastPathComponent == "b")
    precondition(URL(string: "../c", relativeTo: url)!.absoluteURL.path == "/c")
    precondition(URL(fileURLWithPath: "/tmp").appendingPathComponent("x.txt").pathExtension == "txt")
    _ = "a b".addingPercentEncoding(withAllowedCharacters: .urlQueryAllowed)
}
// case: -
func files(_ isFixed: Bool) {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    try! FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let file = folder.appendingPathComponent("text")
    try! Data("line 1\nline 2\n".utf8).write(to: file, options: .atomic)
    precondition(try! String(contentsOf: file, encoding: .utf8).split(separator: "\n").count == 2)
    let handle = try! FileHandle(forUpdating: file)
    _ = try! handle.readToEnd()
    try! handle.close()
    precondition(try! FileManager.default.contentsOfDirectory(atPath: folder.path) == ["text"])
    _ = try? FileManager.default.attributesOfItem(atPath: file.path)
    _ = try? Data(contentsOf: folder.appendingPathComponent("none"))
    for case let entry as URL in FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)! {
        _ = entry.path
    }
    try! FileManager.default.removeItem(at: folder)
}
// case: -
func processes(_ isFixed: Bool) {
    for words in [["-c", "echo hello"], ["-c", "exit 3"]] {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = words
        process.environment = ["PATH": "/bin"]
        let pipe = Pipe()
        process.standardOutput = pipe
        try! process.run()
        _ = try! pipe.fileHandleForReading.readToEnd()
        process.waitUntilExit()
    }
}
// case: -
func strings(_ isFixed: Bool) {
    var words: [String: Int] = [:]
    for number in 0..<2000 { words["the word with number \(number % 97)", default: 0] += 1 }
    let sorted = words.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }.joined(separator: ", ")
    precondition(sorted.uppercased().hasPrefix("THE"))
    precondition(String(format: "%05d %@ %.2f", 7, "x", 1.5) == "00007 x 1.50")
    let bridged = NSMutableString(string: sorted)
    bridged.append("!")
    precondition(sorted.components(separatedBy: ", ").count == 97)
    _ = NSAttributedString(string: "text").length
    _ = AttributedString("text")
}
// case: -
func decimalsAndUnits(_ isFixed: Bool) {
    precondition(Decimal(string: "1.10")! + Decimal(2) == Decimal(string: "3.1")!)
    _ = Measurement(value: 3, unit: UnitLength.meters).converted(to: .feet)
    precondition(NSPredicate { value, _ in value as? Int == 3 }.evaluate(with: 3))
    _ = Data(repeating: 7, count: 300).base64EncodedString()
    _ = UUID().uuidString
    _ = IndexSet(integersIn: 3..<9).map { $0 * 2 }
}

// case: -
func tasks(_ isFixed: Bool) {
    let done = DispatchSemaphore(value: 0)
    Task {
        let sum = await withTaskGroup(of: Int.self) { group in
            for number in 0..<50 {
                group.addTask {
                    await Task.yield()
                    return number
                }
            }
            return await group.reduce(0, +)
        }
        precondition(sum == 1225)
        async let first = Task { 1 }.value
        async let second = Task.detached { 2 }.value
        _ = await first + second
        do {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { throw CancellationError() }
                group.addTask { try await Task.sleep(for: .seconds(100)) }
                try await group.next()
            }
        } catch {}
        done.signal()
    }
    done.wait()
}
actor Bank {
    var accounts: [String: Int] = [:]
    func deposit(_ amount: Int, _ name: String) { accounts[name, default: 0] += amount }
}
@globalActor actor Service {
    static let shared = Service()
}
@Service func served(_ text: String) -> String { text + "!" }
// case: -
func actorsAtWork(_ isFixed: Bool) {
    let done = DispatchSemaphore(value: 0)
    Task {
        let bank = Bank()
        await withDiscardingTaskGroup { group in
            for number in 0..<100 { group.addTask { await bank.deposit(1, "account number \(number % 7)") } }
        }
        let count = await bank.accounts.count
        precondition(count == 7)
        _ = await served("a text that is not small")
        done.signal()
    }
    done.wait()
}
// case: -
func streams(_ isFixed: Bool) {
    let done = DispatchSemaphore(value: 0)
    Task {
        let (stream, continuation) = AsyncStream.makeStream(of: String.self)
        let producer = Task {
            for number in 0..<20 { continuation.yield("element number \(number)") }
            continuation.finish()
        }
        var count = 0
        for await _ in stream { count += 1 }
        precondition(count == 20)
        _ = await producer.value
        let mapped = AsyncThrowingStream<Int, any Error> { continuation in
            continuation.yield(1)
            continuation.finish(throwing: CancellationError())
        }.map { $0 * 2 }
        do { for try await _ in mapped {} } catch {}
        done.signal()
    }
    done.wait()
}
enum Trace { @TaskLocal static var id: String? }
// case: -
func cancelledTasks(_ isFixed: Bool) {
    let done = DispatchSemaphore(value: 0)
    Task {
        let task = Task {
            try await Trace.$id.withValue("an identifier of a trace") {
                try await withTaskCancellationHandler {
                    try await Task.sleep(for: .seconds(1000))
                } onCancel: {
                }
            }
        }
        await Task.yield()
        task.cancel()
        _ = await task.result
        let value = await withCheckedContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(returning: [1, 2, 3]) }
        }
        precondition(value.count == 3)
        done.signal()
    }
    done.wait()
}
// case: -
func queues(_ isFixed: Bool) {
    let serial = DispatchQueue(label: "serial")
    let concurrent = DispatchQueue(label: "concurrent", attributes: .concurrent)
    let group = DispatchGroup()
    nonisolated(unsafe) var sum = 0
    for number in 0..<100 {
        concurrent.async(group: group) { serial.async(group: group) { sum += number } }
    }
    group.wait()
    concurrent.sync(flags: .barrier) {}
    precondition(sum == 4950)
    let item = DispatchWorkItem { _ = 1 }
    serial.async(execute: item)
    item.wait()
    DispatchQueue.concurrentPerform(iterations: 16) { _ in _ = [1, 2, 3].map { $0 + 1 } }
    serial.setSpecific(key: DispatchSpecificKey<Int>(), value: 3)
    let finished = DispatchSemaphore(value: 0)
    group.notify(queue: serial) { finished.signal() }
    finished.wait()
}
// case: -
func dispatchSources(_ isFixed: Bool) {
    let fired = DispatchSemaphore(value: 0)
    let cancelled = DispatchSemaphore(value: 0)
    let timer = DispatchSource.makeTimerSource(queue: .global())
    timer.setEventHandler { fired.signal() }
    timer.setCancelHandler { cancelled.signal() }
    timer.schedule(deadline: .now(), repeating: .milliseconds(1))
    timer.resume()
    fired.wait()
    timer.cancel()
    cancelled.wait()
    let pipe = Pipe()
    let reader = DispatchSource.makeReadSource(fileDescriptor: pipe.fileHandleForReading.fileDescriptor)
    reader.setEventHandler { fired.signal() }
    reader.setCancelHandler { cancelled.signal() }
    reader.resume()
    pipe.fileHandleForWriting.write(Data("x".utf8))
    fired.wait()
    reader.cancel()
    cancelled.wait()
    DispatchQueue.global().asyncAfter(deadline: .now() + 0.001) { fired.signal() }
    fired.wait()
}
// case: -
func operations(_ isFixed: Bool) {
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 2
    let first = BlockOperation { _ = (0..<100).reduce(0, +) }
    let second = BlockOperation { _ = [1, 2, 3] }
    second.addDependency(first)
    second.completionBlock = {}
    queue.addOperations([first, second], waitUntilFinished: true)
    queue.addOperation { _ = 1 }
    queue.waitUntilAllOperationsAreFinished()
}
// case: -
func threads(_ isFixed: Bool) {
    let done = DispatchSemaphore(value: 0)
    let lock = NSLock()
    nonisolated(unsafe) var names: [String] = []
    for number in 0..<4 {
        let thread = Thread {
            lock.withLock { names.append("thread number \(number) of four") }
            Thread.current.threadDictionary["key"] = "value"
            done.signal()
        }
        thread.name = "worker \(number)"
        thread.start()
    }
    for _ in 0..<4 { done.wait() }
    let condition = NSCondition()
    condition.lock()
    _ = condition.wait(until: Date().addingTimeInterval(0.001))
    condition.unlock()
}
// case: -
func plainThreads(_ isFixed: Bool) {
    var handles: [pthread_t] = []
    for _ in 0..<4 {
        var handle = pthread_t()
        pthread_create(
            &handle, nil,
            { _ in
                var text = ""
                for number in 0..<100 { text += "\(number) " }
                return UnsafeMutableRawPointer(bitPattern: text.count)
            }, nil)
        handles.append(handle)
    }
    for handle in handles { pthread_join(handle, nil) }
}
// case: -
func runLoops(_ isFixed: Bool) {
    nonisolated(unsafe) var count = 0
    let timer = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: true) { timer in
        count += 1
        if count == 3 { timer.invalidate() }
    }
    while count < 3 { RunLoop.current.run(until: Date().addingTimeInterval(0.01)) }
    precondition(!timer.isValid)
    RunLoop.current.perform { count += 1 }
    RunLoop.current.run(until: Date().addingTimeInterval(0.01))
}
// case: -
func notifications(_ isFixed: Bool) {
    let center = NotificationCenter.default
    nonisolated(unsafe) var count = 0
    let token = center.addObserver(forName: .init("a"), object: nil, queue: nil) { _ in count += 1 }
    center.post(name: .init("a"), object: nil, userInfo: ["key": "value"])
    center.removeObserver(token)
    precondition(count == 1)
    UserDefaults.standard.set("value", forKey: "key")
    _ = UserDefaults.standard.string(forKey: "key")
    _ = Bundle.main.path(forResource: "none", ofType: "txt")
    _ = ProcessInfo.processInfo.operatingSystemVersionString
    _ = Host.current().name
}

class Base {
    var name = "a name that is longer than fifteen bytes"
    weak var parent: Base?
    lazy var upper = name.uppercased()
}
final class Derived: Base {
    var children: [Base] = []
    var handler: (() -> Void)?
    nonisolated(unsafe) static let shared = Derived()
}
// case: -
func classes(_ isFixed: Bool) {
    for _ in 0..<50 {
        let parent = Derived()
        for _ in 0..<10 {
            let child = Derived()
            child.parent = parent
            child.handler = { [weak child] in _ = child?.upper }
            child.handler?()
            parent.children.append(child)
        }
    }
    Derived.shared.children.append(Base())
    let path: ReferenceWritableKeyPath<Base, String> = \.name
    Derived.shared[keyPath: path] = "another name of the same length"
    _ = String(describing: Mirror(reflecting: Derived.shared).children.map(\.label))
}
@Observable final class Counter { var count = 0 }
// case: -
func observed(_ isFixed: Bool) {
    let counter = Counter()
    let changes = Mutex(0)
    withObservationTracking {
        _ = counter.count
    } onChange: {
        changes.withLock { $0 += 1 }
    }
    counter.count += 1
    precondition(changes.withLock { $0 } == 1)
}
struct Matrix: ~Copyable {
    let cells: UnsafeMutableBufferPointer<Double>
    init(_ count: Int) {
        cells = .allocate(capacity: count)
        cells.initialize(repeating: 0)
    }
    deinit { cells.deallocate() }
}
indirect enum Term {
    case number(Double)
    case sum(Term, Term)
    case product([Term])
    var value: Double {
        switch self {
        case .number(let number): number
        case .sum(let a, let b): a.value + b.value
        case .product(let terms): terms.reduce(1) { $0 * $1.value }
        }
    }
}
// case: -
func values(_ isFixed: Bool) {
    let matrix = Matrix(64)
    matrix.cells[3] = 1
    precondition(Term.sum(.number(1), .product([.number(2), .sum(.number(1), .number(2))])).value == 7)
    var heap = Set((0..<1000).map { "\($0) as a longer string" })
    while heap.count > 10 { heap.removeFirst() }
    let anything: [Any] = [1, "two", [3.0], { 4 }, Derived()]
    precondition(anything.count == 5)
    let sequence = sequence(first: 1) { $0 < 100 ? $0 * 2 : nil }.lazy.map { $0 + 1 }.filter { $0 % 3 == 0 }
    _ = Array(sequence)
    do { throw NSError(domain: "domain", code: 3, userInfo: ["key": [1, 2]]) } catch { _ = "\(error)" }
}

nonisolated(unsafe) let cases: [(name: String, run: (Bool) -> Void)] = [
    ("json", json), ("propertyList", propertyList), ("regexes", regexes), ("oldRegexes", oldRegexes),
    ("dates", dates), ("urls", urls), ("files", files), ("processes", processes), ("strings", strings),
    ("decimalsAndUnits", decimalsAndUnits), ("tasks", tasks), ("actorsAtWork", actorsAtWork), ("streams", streams),
    ("cancelledTasks", cancelledTasks), ("queues", queues), ("dispatchSources", dispatchSources),
    ("operations", operations), ("threads", threads), ("plainThreads", plainThreads), ("runLoops", runLoops),
    ("notifications", notifications), ("classes", classes), ("observed", observed), ("values", values),
]
