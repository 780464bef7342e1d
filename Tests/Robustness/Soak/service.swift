// A Swift service without clients for the soak test: makes and removes orders, uses JSON, tasks, closures and strings,
// and sometimes starts a child process. The amount of live memory is bounded. Exits with 0 at SIGTERM.

import Foundation

struct Line: Codable, Equatable {
    var article: String
    var amount: Int
    var price: Double?
}

final class Order {
    let number: Int
    var lines: [Line]
    weak var customer: Customer?
    unowned let book: Book
    var note: (() -> String)?

    init(number: Int, lines: [Line], customer: Customer, book: Book) {
        self.number = number
        self.lines = lines
        self.customer = customer
        self.book = book
        note = { [weak self] in "order \(self?.number ?? -1)" }
    }
}

final class Customer {
    let name: String
    var orders: [Int: Order] = [:]

    init(name: String) { self.name = name }
}

final class Book {
    var customers: [String: Customer] = [:]
    private var next = 0

    func take(_ generator: inout some RandomNumberGenerator) {
        next += 1
        let name = "customer \(Int.random(in: 0..<200, using: &generator)) of a rather long name"
        let customer = customers[name] ?? Customer(name: name)
        customers[name] = customer
        let lines = (0..<Int.random(in: 0..<12, using: &generator)).map {
            Line(article: "article \($0) \(next % 97)", amount: $0, price: $0 % 3 == 0 ? nil : Double($0) * 1.5)
        }
        customer.orders[next % 40] = Order(number: next, lines: lines, customer: customer, book: self)
        if next % 50 == 0 { customers[name] = nil }
    }
}

func roundTrip(_ lines: [Line]) -> Bool {
    guard let data = try? JSONEncoder().encode(lines), let again = try? JSONDecoder().decode([Line].self, from: data)
    else {
        return false
    }
    return again == lines
}

func count(_ texts: [String]) async -> Int {
    await withTaskGroup(of: Int.self) { group in
        for text in texts { group.addTask { text.split(separator: " ").map(String.init).joined(separator: "-").count } }
        return await group.reduce(0, +)
    }
}

@main
struct Service {
    static func main() async throws {
        signal(SIGTERM, SIG_IGN)
        let stopping = DispatchSource.makeSignalSource(signal: SIGTERM, queue: .global())
        stopping.setEventHandler { exit(0) }
        stopping.resume()
        let book = Book()
        var generator = SystemRandomNumberGenerator()
        var round = 0
        while true {
            round += 1
            for _ in 0..<500 { book.take(&generator) }
            let orders = book.customers.values.flatMap { $0.orders.values }
            for order in orders.prefix(100) {
                precondition(roundTrip(order.lines), "JSON came back different")
                precondition(order.note?() == "order \(order.number)", "a closure forgot its order")
            }
            let total = await count(orders.prefix(50).map { "\($0.customer?.name ?? "nobody") \($0.number)" })
            precondition(total > 0, "no task answered")
            if round % 200 == 0 {
                let child = Process()
                child.executableURL = URL(fileURLWithPath: "/bin/true")
                try child.run()
                child.waitUntilExit()
                precondition(child.terminationStatus == 0, "a child failed")
            }
        }
    }
}
