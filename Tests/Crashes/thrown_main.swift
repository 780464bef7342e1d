// An async main that throws. The line before main has the format of thrown.swift.
enum ShopError: Error { case outOfCheese(Int) }

@inline(never) func outOfCheese(_ count: Int) async throws -> Int {
    await Task.yield()
    throw ShopError.outOfCheese(count)
}

@main struct Shop {
    // dies: TRAP, crash, message=Fatal error: Error raised at top level: .*outOfCheese\(3\), thrown=outOfCheese, threads=any
    static func main() async throws { print(try await outOfCheese(3)) }
}
