// A growable array in malloc'ed memory, for millions of small values.

import Glibc

/// An array that grows with `realloc`, which moves large arrays by remapping pages. A Swift array copies its elements
/// when it grows, and needs up to three times its size meanwhile.
package final class FlatArray<Element: BitwiseCopyable> {
    package private(set) var base: UnsafeMutablePointer<Element>
    package private(set) var count = 0
    private var capacity: Int

    package init(capacity: Int = 64) {
        self.capacity = max(capacity, 1)
        base = Self.resized(nil, to: self.capacity)
    }

    /// An array of equal elements.
    package convenience init(repeating element: Element, count: Int) {
        self.init(capacity: count)
        base.initialize(repeating: element, count: count)
        self.count = count
    }

    deinit { free(base) }

    private static func resized(_ old: UnsafeMutableRawPointer?, to capacity: Int) -> UnsafeMutablePointer<Element> {
        guard let base = realloc(old, capacity * MemoryLayout<Element>.stride) else {
            fatalError("zguard: out of memory")
        }
        return base.assumingMemoryBound(to: Element.self)
    }

    @inline(__always)
    package func append(_ element: Element) {
        if count == capacity { grow() }
        base[count] = element
        count &+= 1
    }

    private func grow() {
        capacity += capacity / 2 + 1
        base = Self.resized(base, to: capacity)
    }

    @inline(__always)
    package func removeLast() -> Element {
        precondition(count > 0)
        count &-= 1
        return base[count]
    }

    package func removeAll() { count = 0 }

    @inline(__always)
    package subscript(index: Int) -> Element {
        get {
            precondition(index >= 0 && index < count)
            return base[index]
        }
        set {
            precondition(index >= 0 && index < count)
            base[index] = newValue
        }
    }

    /// The elements, valid until the next change of the array's length.
    package var elements: UnsafeMutableBufferPointer<Element> { UnsafeMutableBufferPointer(start: base, count: count) }
}
