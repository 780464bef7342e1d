// Runs one case: Shop [--kept | --reused | --first] CASE. Cases.swift, which names them all, is made by the driver. Until the case begins
// no object is made but those that live to the end; then one goes before the case's own, unless the case's is to be the process's first.

import Foundation

/// Whether the argument has this text: told without a String, which could be an object.
@inline(never)
func isArgument(_ number: Int, _ text: StaticString) -> Bool {
    guard number < Int(CommandLine.argc), let argument = CommandLine.unsafeArgv[number] else { return false }
    return strcmp(argument, UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self)) == 0
}

/// What was an object of a class before the first case began.
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
    exit(64) // there is no such case
}
while true { pause() }
