public protocol Shape {
    var name: String { get }
    func contains(_ x: Int, _ y: Int) -> Bool
}

public struct Circle: Shape {
    public let name = "circle"
    let x, y, radius: Int

    public init(x: Int, y: Int, radius: Int) { (self.x, self.y, self.radius) = (x, y, radius) }

    public func contains(_ px: Int, _ py: Int) -> Bool {
        (px - x) * (px - x) + 4 * (py - y) * (py - y) <= radius * radius
    }
}

public struct Group<First: Shape, Second: Shape>: Shape {
    let first: First
    let second: Second
    public var name: String { first.name + "+" + second.name }
    public func contains(_ x: Int, _ y: Int) -> Bool { first.contains(x, y) != second.contains(x, y) }
}

public func ^ <A: Shape, B: Shape>(a: A, b: B) -> Group<A, B> { Group(first: a, second: b) }
