import CSupport
#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

public final class Canvas {
    private var rows: [[Character]]

    public init(width: Int, height: Int) {
        rows = Array(repeating: Array(repeating: " ", count: width), count: height)
    }

    public func draw(_ shape: some Shape, with character: Character) {
        for y in rows.indices {
            for x in rows[y].indices where shape.contains(x, y) { rows[y][x] = character }
        }
    }

    public func title(_ shape: some Shape) -> String {
        guard let upper = support_upper(shape.name) else { return "" }
        defer { free(upper) }
        return String(cString: upper)
    }

    public var text: String { rows.map { String($0) }.joined(separator: "\n") }
}
