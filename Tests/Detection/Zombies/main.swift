// Runs one case: Shop [--kept | --reused | --first] CASE. The driver generates Cases.swift, the table of all cases.
// main frees one object (Earlier) before the case begins; with --first the process frees no object before the case.

import Foundation

/// Whether the argument has this text. Compares C strings, because a Swift String may allocate an object.
@inline(never)
func isArgument(_ number: Int, _ text: StaticString) -> Bool {
    guard number < Int(CommandLine.argc), let argument = CommandLine.unsafeArgv[number] else { return false }
    return strcmp(argument, UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self)) == 0
}

/// Class of the object that is freed before the case begins.
final class Earlier {}

let last = Int(CommandLine.argc) - 1
if isArgument(1, "--kept") { fate = .kept }
if isArgument(1, "--reused") {
    fate = .reused
    reusedBlocks.reserveCapacity(1000)
}
if !isArgument(1, "--first") { dropReference(Unmanaged.passRetained(Earlier()).toOpaque()) }

do {
    if try runCase(last) { done("returned") }
} catch {
    done("the case threw \(error)")
}
Task.detached {
    do {
        if try await runAsyncCase(last) { done("returned") }
    } catch {
        done("the case threw \(error)")
    }
    exit(64) // unknown case
}
while true { pause() }
