// Eight tasks do the same kinds of work at the same time, each in a different order, while other threads race. The
// answers are the same in every run. A use of a destroyed object ends the program with status 3.

import Foundation

typealias Part = (name: String, work: @Sendable (Int) async throws -> String)

let parts: [Part] = [
    ("references", { references($0) }),
    ("structures", { structures($0) }),
    ("tasks", { try await tasks($0) }),
    ("types", { types($0) }),
    ("texts", { try texts($0) }),
]

@main
struct Exerciser {
    static func main() async throws {
        let others = Task { await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: [("queues", queues()), ("races", races())]) }
        } }
        let answers = try await withThrowingTaskGroup(of: [String].self) { group in
            for task in 0..<8 {
                group.addTask {
                    var answers: [String] = []
                    for turn in parts.indices {
                        let part = parts[(task + turn) % parts.count]
                        answers.append("task \(task) \(part.name) \(try await part.work(task))")
                    }
                    return answers
                }
            }
            var answers: [String] = []
            for try await some in group { answers += some }
            return answers
        }
        for answer in answers.sorted() { print(answer) }
        for (name, answer) in await others.value { print(name, answer) }

        // Wait until deinits on other executors and thread-locals have ended. Then no instance may be left except the
        // default value of a task-local.
        var (alive, registered) = (0, 0)
        for _ in 0..<2000 {
            (alive, registered) = (Census.alive - 1, await Registered.alive)
            if alive == 0 && registered == 0 { break }
            try await Task.sleep(for: .milliseconds(5))
        }
        print("instances", alive, "registered", registered)
    }
}
