// Typical work of a service: JSON in and out, words counted in a dictionary, text built, records sorted and grouped.

import Foundation

struct Record: Codable {
    var id: Int
    var name: String
    var email: String?
    var scores: [Double]
    var address: Address
    var tags: Set<String>

    struct Address: Codable {
        var street: String
        var city: String
        var code: Int
    }
}

struct Numbers {
    var state: UInt64 = 42
    mutating func below(_ limit: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int(state >> 33) % limit
    }
}

let words = "amber basin cedar delta ember fjord grove haven inlet jetty knoll ledge marsh notch oasis prairie".split(separator: " ").map(String.init)

func record(_ id: Int, _ numbers: inout Numbers) -> Record {
    Record(
        id: id, name: "\(words[numbers.below(16)]) \(words[numbers.below(16)])",
        email: numbers.below(3) == 0 ? nil : "\(words[numbers.below(16)]).\(id)@example.org",
        scores: (0..<numbers.below(8)).map { _ in Double(numbers.below(1000)) / 8 },
        address: .init(street: "\(numbers.below(200)) \(words[numbers.below(16)]) street", city: words[numbers.below(16)], code: numbers.below(99_999)),
        tags: Set((0..<numbers.below(5)).map { _ in "tag \(words[numbers.below(16)])" }))
}

@main
struct Benchmark {
    static func main() throws {
        let scale = CommandLine.arguments.dropFirst().first.flatMap { Double($0) } ?? 1
        var numbers = Numbers(), sum = 0
        let encoder = JSONEncoder(), decoder = JSONDecoder()
        encoder.outputFormatting = .sortedKeys
        for _ in 0..<max(1, Int(20 * scale)) {
            let records = (0..<2000).map { record($0, &numbers) }
            let back = try decoder.decode([Record].self, from: encoder.encode(records))
            var counts: [String: Int] = [:]
            var text = ""
            for record in back {
                text += "\(record.id): \(record.name), \(record.address.city)"
                if let email = record.email { text += " <" + email + ">" }
                for tag in record.tags.sorted() { text += " [\(tag)]" }
                text += String(format: " %.2f\n", record.scores.reduce(0, +))
            }
            for line in text.split(separator: "\n") {
                for word in line.split(whereSeparator: { !$0.isLetter }) { counts[word.lowercased(), default: 0] += 1 }
            }
            let sorted = back.sorted { ($0.address.city, $0.name, $0.id) < ($1.address.city, $1.name, $1.id) }
            let groups = Dictionary(grouping: sorted, by: \.address.city).mapValues { $0.map(\.name).joined(separator: ";").count }
            sum &+= text.utf8.count &+ counts.values.reduce(0, +) &+ groups.values.reduce(0, +) &+ sorted[100].id
        }
        print(sum)
    }
}
