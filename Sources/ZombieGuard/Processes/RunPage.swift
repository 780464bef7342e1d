// Maps the page that all processes of a run share with zguard.

import CSystem
import CZombie
import Glibc

/// The mapped shared page of a run; deinit unmaps it.
package final class RunPage {
    package let contents: UnsafeMutablePointer<zg_coverage_page>

    /// `descriptor` is the memfd that the processes of the run map as well.
    package init(_ descriptor: Descriptor) throws(SystemError) {
        let mapped = mmap(nil, Self.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.number, 0)
        guard let mapped, mapped != MAP_FAILED else { throw .last }
        contents = mapped.bindMemory(to: zg_coverage_page.self, capacity: 1)
    }

    deinit { munmap(contents, Self.bytes) }

    private static var bytes: Int { Int(ZG_COVERAGE_BYTES) }

    /// Pointer to a field that other processes write concurrently; for an array, to its first element.
    package func place<Whole, Part>(of path: KeyPath<zg_coverage_page, Whole>) -> UnsafeMutablePointer<Part> {
        let offset = MemoryLayout<zg_coverage_page>.offset(of: path)!
        return (UnsafeMutableRawPointer(contents) + offset).assumingMemoryBound(to: Part.self)
    }
}
